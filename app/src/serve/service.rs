//! A running `serve`: the relay and what stands around it, and how all of it takes another configuration.

use super::access_log::{self, AccessLog, Opened};
use super::cluster::Membership;
use super::events::Events;
use super::record::Recording;
use super::site::{Arrangement, PageSite};
use super::succession::{self, HandoverState};
use super::webhooks::Webhooks;
use super::{explain, forward, identity, links, listeners, rtmp, rtsp, settings, slates, srt, where_to_look};
use crate::config::Config;
use crate::encode::{self, EncodeOptions};
use crate::link::warn_of_flow_labels;
use crate::{failure, logging};
use anyhow::{Context, Result};
use glassline_call::contribution::Ways;
use glassline_delivery::policy::StreamName;
use glassline_doors::entrance::Entrance;
use glassline_doors::forward::Forwards;
use glassline_doors::rtmp::Rtmp;
use glassline_doors::rtsp::Rtsp;
use glassline_doors::slate::{Slate, Slates};
use glassline_doors::srt::SrtWays;
use glassline_io::handover::Channel;
use glassline_relay::{DrainingTls, Relay, StartError};
use glassline_streams::status::Companion;
use glassline_studio::encode::{EncoderRequest, Supervisor};
use glassline_watch::Alarms;
use std::sync::Arc;

pub(super) struct Service {
    config: Config,
    site: Arc<PageSite>,
    relay: Relay,
    encoders: Arc<Supervisor>,
    links: Arc<Ways>,
    srt: Arc<SrtWays>,
    forwards: Arc<Forwards>,
    rtmp: Arc<Rtmp>,
    rtsp: Arc<Rtsp>,
    slates: Slates,
    /// What they show, as it was read with the configuration.
    slate_files: Vec<Slate>,
    watch: glassline_watch::Service,
    webhooks: Arc<Webhooks>,
    cluster: Arc<Membership>,
    recording: Arc<Recording>,
}

impl Service {
    /// Starts all that `config` asks for.
    pub(super) fn start(config: Config) -> Result<Service> {
        let slate_files = slates::read(&config)?;
        let access_file = open_log(&config)?;
        let mut site = None;
        let encoders = Arc::new(Supervisor::new(encode::explain));
        let alarms = Arc::<Alarms>::default();
        let webhooks = Arc::<Webhooks>::default();
        webhooks.configure(config.webhooks()).context("cannot start the threads of webhooks")?;
        let started = Relay::start_after(settings(&config), || {
            identity::assume(&config, access_file.as_ref())?;
            let arrangement = arrangement(&config, access_file)?;
            let page = Arc::new(PageSite::new(
                arrangement,
                Arc::clone(&encoders),
                Arc::clone(&alarms),
                Arc::clone(&webhooks),
            ));
            site = Some(Arc::clone(&page));
            Ok(page as _)
        });
        let relay = started.map_err(|error: anyhow::Error| match error.downcast::<StartError>() {
            Ok(error) => explain(error),
            Err(error) => error,
        })?;
        let site = site.expect("a relay that started has asked for its site");
        let watch = watch(&relay, alarms, &webhooks, &config)?;
        let (rtmp, rtsp) = doors(&relay);
        let recording = Arc::new(Recording::start(&config)?);
        let service = Service {
            config,
            recording,
            site,
            relay,
            encoders,
            watch,
            webhooks,
            rtmp,
            rtsp,
            slates: Slates::default(),
            slate_files,
            links: Arc::default(),
            srt: Arc::default(),
            forwards: Arc::default(),
            cluster: Arc::default(),
        };
        service.begin();
        service.listen_at_doors()?;
        service.check_srt()?;
        Ok(service)
    }

    /// Takes the place of the running server.
    pub(super) fn take_over(config: Config) -> Result<Service> {
        let slate_files = slates::read(&config)?;
        let access_file = open_log(&config)?;
        identity::assume(&config, access_file.as_ref())?;
        let encoders = Arc::new(Supervisor::new(encode::explain));
        let alarms = Arc::<Alarms>::default();
        let webhooks = Arc::<Webhooks>::default();
        webhooks.configure(config.webhooks()).context("cannot start the threads of webhooks")?;
        let arrangement = arrangement(&config, access_file)?;
        let site = Arc::new(PageSite::new(
            arrangement,
            Arc::clone(&encoders),
            Arc::clone(&alarms),
            Arc::clone(&webhooks),
        ));
        let (channel, message, descriptors) = HandoverState::ask_for(&config)?.open();
        let waiting = match Relay::take_over(settings(&config), Arc::clone(&site) as _, &message, descriptors)
        {
            Ok(waiting) => waiting,
            Err(error) => {
                HandoverState::decline(channel, &error);
                return Err(failure::failed(
                    error,
                    "the running server continues; end it and start this one instead",
                ));
            }
        };
        HandoverState::accept(channel)?;
        // Before workers answer: what other servers have is not known yet, and is not told to be nowhere.
        let cluster = Arc::<Membership>::default();
        let relay = waiting.start_after(|hub| cluster.arrange(&config.cluster, hub)).map_err(explain)?;
        let watch = watch(&relay, alarms, &webhooks, &config)?;
        let (rtmp, rtsp) = doors(&relay);
        let recording = Arc::new(Recording::start(&config)?);
        let service = Service {
            config,
            recording,
            site,
            relay,
            encoders,
            watch,
            webhooks,
            rtmp,
            rtsp,
            slates: Slates::default(),
            slate_files,
            links: Arc::default(),
            srt: Arc::default(),
            forwards: Arc::default(),
            cluster,
        };
        service.begin();
        // The streams of all others go on in any case.
        if let Err(error) = service.listen_at_doors() {
            tracing::error!("{error:#}");
        }
        Ok(service)
    }

    /// Starts what stands around a relay that runs.
    fn begin(&self) {
        // First: workers answer already. Before what publishes, too: its names may be other servers'.
        self.site.set_cluster(Arc::clone(&self.cluster));
        self.cluster.arrange(&self.config.cluster, self.relay.hub());
        self.site.set_addresses(self.relay.addresses());
        self.site.set_recording(Arc::clone(&self.recording));
        self.recording.attach(self.relay.hub());
        self.recording.configure(&self.config);
        self.warn_of_flow_labels();
        self.relay.hub().set_companions(self.companions());
        // A slate that was shown in the last process goes on once it is coded in this one, and what was
        // missed until then is made up; times and seconds are counted anew.
        self.start_slates();
        self.start_links();
        self.start_srt();
        self.start_forwards();
        self.start_encoders();
    }

    /// Serves clients over RTMP and RTSP where the configuration says, and nowhere else.
    fn listen_at_doors(&self) -> Result<()> {
        let opened = self.rtmp.open(&rtmp::listeners(&self.config)).map_err(rtmp::explain)?;
        self.rtmp.arrange(opened).context("cannot start the thread of RTMP")?;
        let opened = self.rtsp.open(&rtsp::listeners(&self.config)).map_err(rtsp::explain)?;
        self.rtsp.arrange(opened).context("cannot start the thread of RTSP")
    }

    /// Passes everything, except for the TLS sessions of connections, to the new process at the other end of `channel`.
    /// If that fails, the service continues.
    pub(super) fn hand_over(&mut self, channel: Channel) -> Result<DrainingTls> {
        self.encoders.end();
        // The next process listens at the same addresses.
        self.links.end();
        self.srt.end();
        self.forwards.end();
        self.rtmp.end();
        self.rtsp.end();
        self.slates.end();
        self.watch.pause();
        // The next process has the same name.
        self.cluster.pause();
        self.recording.release();
        let left = succession::hand_over(&mut self.relay, channel);
        if left.is_err() {
            self.cluster.arrange(&self.config.cluster, self.relay.hub());
            self.recording.configure(&self.config);
            self.start_slates();
            self.start_links();
            self.start_srt();
            self.start_forwards();
            self.watch.configure(self.config.watched());
            self.start_encoders();
            if let Err(error) = self.listen_at_doors() {
                tracing::error!("{error:#}");
            }
        }
        left
    }

    /// The name of the socket at which a new process finds this one.
    pub(super) fn meeting_name(&self) -> String {
        succession::name(listeners(&self.config)[0].address, self.relay.addresses()[0])
    }

    /// Has the encoders that the configuration names and no others; those that it names as before go on.
    fn start_encoders(&self) {
        let demo = &self.config.demo;
        let demo = demo.enabled.then(|| (&demo.name, demo.as_section()));
        let sections = self.config.encode.iter().map(|(name, section)| (name, section.clone()));
        let request = |(name, section): (&String, EncodeOptions)| -> Option<(StreamName, EncoderRequest)> {
            let name = StreamName::parse(name)?;
            let request = encode::encoder_request(&name, &section)?;
            Some((name, request))
        };
        let wanted = sections.chain(demo).filter_map(request).collect();
        self.encoders.arrange(self.relay.hub().live_streams(), &wanted);
    }

    /// Goes on with `config`. Where that fails, all is as it was.
    pub(super) fn reload(&mut self, config: Config) -> Result<()> {
        let slate_files = slates::read(&config)?;
        let access_file = open_log(&config)?;
        let arrangement = arrangement(&config, access_file)?;
        let for_rtmp = self.rtmp.open(&rtmp::listeners(&config)).map_err(rtmp::explain)?;
        let for_rtsp = self.rtsp.open(&rtsp::listeners(&config)).map_err(rtsp::explain)?;
        self.srt.check(&srt::listener(&config)).map_err(|(address, error)| srt::explain(address, &error))?;
        self.relay.reload(settings(&config)).map_err(explain)?;
        if let Err(error) = self.rtmp.arrange(for_rtmp) {
            tracing::error!("cannot start the thread of RTMP: {error}");
        }
        if let Err(error) = self.rtsp.arrange(for_rtsp) {
            tracing::error!("cannot start the thread of RTSP: {error}");
        }
        logging::configure(config.log.format, &config.log.level)?;
        self.site.rearrange(arrangement);
        self.site.set_addresses(self.relay.addresses());
        if config.workers != self.config.workers {
            tracing::warn!("the new number of workers takes effect at the next start");
        }
        let user = |config: &Config| (config.process.user.clone(), config.process.group.clone());
        if user(&config) != user(&self.config) {
            tracing::warn!("the new user takes effect at the next start");
        }
        if let Err(error) = self.webhooks.configure(config.webhooks()) {
            tracing::error!("no webhooks tell of alarms: {error}");
        }
        self.watch.configure(config.watched());
        self.cluster.arrange(&config.cluster, self.relay.hub());
        self.recording.configure(&config);
        self.config = config;
        self.slate_files = slate_files;
        self.warn_of_flow_labels();
        self.start_slates();
        self.start_links();
        self.start_srt();
        self.start_forwards();
        self.start_encoders();
        Ok(())
    }

    /// Has the slates that the configuration names and no others.
    fn start_slates(&self) {
        if let Err(error) = self.slates.arrange(self.relay.hub().live_streams(), self.slate_files.clone()) {
            tracing::error!("no slates are shown: cannot start their thread: {error}");
        }
    }

    /// Has the links that the configuration names and no others; those that it names as before go on.
    fn start_links(&self) {
        self.links.arrange(self.relay.hub().live_streams(), links::wanted(&self.config));
    }

    /// Has what of SRT the configuration names and nothing else; what it names as before goes on.
    fn start_srt(&self) {
        let server = Arc::clone(self.relay.hub()) as Arc<dyn Entrance>;
        self.srt.arrange(&server, &srt::listener(&self.config), srt::lines(&self.config));
    }

    /// Has the forwards that the configuration names and no others; those that it names as before go on.
    fn start_forwards(&self) {
        self.forwards.arrange(self.relay.hub().live_streams(), forward::wanted(&self.config));
    }

    /// Whether SRT is served wherever the configuration says.
    fn check_srt(&self) -> Result<()> {
        match self.srt.failed().first() {
            None => Ok(()),
            Some((address, error)) => Err(srt::explain(*address, error)),
        }
    }

    /// What runs beside the relay and complements the status of its streams.
    fn companions(&self) -> Vec<Arc<dyn Companion>> {
        vec![
            Arc::clone(&self.links) as _,
            Arc::clone(&self.srt) as _,
            Arc::clone(&self.forwards) as _,
            Arc::clone(&self.rtmp) as _,
            Arc::clone(&self.rtsp) as _,
        ]
    }

    /// The system may be set so that no packet has a flow label, or so that each has one.
    fn warn_of_flow_labels(&self) {
        let settings = settings(&self.config);
        let of_outputs = settings.outputs.iter().filter_map(|output| output.destination.marks.flow_label);
        warn_of_flow_labels(settings.rules.flow_labels().chain(of_outputs));
    }

    /// Ends all connections.
    pub(super) fn end(self) {
        drop(self.watch);
        self.cluster.end();
        self.encoders.end();
        self.links.end();
        self.srt.end();
        self.forwards.end();
        self.rtmp.end();
        self.rtsp.end();
        self.slates.end();
        self.relay.shutdown();
        self.recording.end();
    }

    /// The line that a newcomer needs: the address to open.
    pub(super) fn where_to_look(&self) -> String {
        let demo = self.config.demo.enabled.then_some(self.config.demo.name.as_str());
        where_to_look(&settings(&self.config).listen, &self.relay.addresses(), demo)
    }
}

/// The doors of `relay` for clients over RTMP and RTSP, which listen nowhere yet.
fn doors(relay: &Relay) -> (Arc<Rtmp>, Arc<Rtsp>) {
    let entrance = || Arc::clone(relay.hub()) as Arc<dyn Entrance>;
    (Arc::new(Rtmp::new(entrance())), Arc::new(Rtsp::new(entrance())))
}

/// Starts what watches the streams of `relay`.
fn watch(
    relay: &Relay,
    alarms: Arc<Alarms>,
    webhooks: &Arc<Webhooks>,
    config: &Config,
) -> Result<glassline_watch::Service> {
    let of_alarms = Arc::clone(webhooks);
    alarms.listen(Box::new(move |entry, at| of_alarms.tell(entry, at)));
    let streams = Arc::clone(relay.hub().live_streams());
    glassline_watch::Service::start(streams, alarms, config.watched())
        .context("cannot start the thread that watches streams")
}

/// Opens the access log anew: the old file may have been moved away.
fn open_log(config: &Config) -> Result<Option<Opened>> {
    config.log.access.as_deref().map(access_log::open).transpose()
}

/// What the site is told of the configuration.
fn arrangement(config: &Config, access_file: Option<Opened>) -> Result<Arrangement> {
    let access_log = access_file.map(|opened| AccessLog::start(opened.file)).transpose()?;
    Ok(Arrangement { contact: config.contact.clone(), access_log, events: Events::of(config) })
}
