//! `[watch]`: which streams are watched for which alarms.

use super::Config;
use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::section::networks;
use crate::serde_text::{list, some_duration};
use glassline_delivery::http1::Url;
use glassline_delivery::policy::{Networks, StreamName};
use glassline_delivery::watch::{Alarm, Rule, Rules};
use glassline_delivery::webhook::{Destinations, WebhookSecret};
use glassline_relay::webhook;
use glassline_watch::Settings;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// Each has a thread.
const RECEIVERS_MAX: usize = 16;

/// `[watch]`. A configuration without it watches nothing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Watch {
    /// Names of streams; `*` in them stands for any letters.
    pub(crate) streams: Vec<String>,
    /// Where alarms are sent to by POST.
    #[serde(deserialize_with = "list")]
    pub(crate) webhook: Vec<Url>,
    /// The file with the key by which they are signed.
    pub(crate) webhook_secret_file: Option<PathBuf>,
    /// Networks that are not of the internet and may have receivers.
    #[serde(deserialize_with = "networks")]
    pub(crate) webhook_networks: Networks,
    /// The file that keeps what is learnt of streams.
    pub(crate) state_file: Option<PathBuf>,
    /// Of `webhook_secret_file`.
    #[serde(skip)]
    pub(crate) webhook_secret: Option<WebhookSecret>,
    silence: AlarmRule,
    clipping: AlarmRule,
    phase: AlarmRule,
    loudness: LoudnessRule,
    black: AlarmRule,
    frozen: AlarmRule,
    blurred: AlarmRule,
    flicker: AlarmRule,
    av_sync: AlarmRule,
    captions: AlarmRule,
    bitrate: AlarmRule,
    discontinuity: AlarmRule,
    absent: AlarmRule,
}

impl Default for Watch {
    fn default() -> Watch {
        let rule = AlarmRule::default();
        Watch {
            streams: vec!["*".to_owned()],
            webhook: Vec::new(),
            webhook_secret_file: None,
            webhook_networks: Networks::default(),
            state_file: None,
            webhook_secret: None,
            silence: rule,
            clipping: rule,
            phase: rule,
            loudness: LoudnessRule::default(),
            black: rule,
            frozen: rule,
            blurred: rule,
            flicker: rule,
            av_sync: rule,
            captions: rule,
            bitrate: rule,
            discontinuity: rule,
            absent: rule,
        }
    }
}

/// `[watch.ALARM]`. What is not set is as [`Rule::default_of`] has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AlarmRule {
    enabled: Option<bool>,
    limit: Option<f64>,
    #[serde(deserialize_with = "some_duration")]
    after: Option<Duration>,
    #[serde(deserialize_with = "some_duration")]
    clear: Option<Duration>,
}

/// `[watch.loudness]`, which has two keys more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LoudnessRule {
    enabled: Option<bool>,
    limit: Option<f64>,
    #[serde(deserialize_with = "some_duration")]
    after: Option<Duration>,
    #[serde(deserialize_with = "some_duration")]
    clear: Option<Duration>,
    /// LUFS.
    target: Option<f64>,
    /// dBTP.
    true_peak: Option<f64>,
}

impl Watch {
    fn rule(&self, alarm: Alarm) -> AlarmRule {
        match alarm {
            Alarm::Silence => self.silence,
            Alarm::Clipping => self.clipping,
            Alarm::Phase => self.phase,
            Alarm::Loudness => {
                let LoudnessRule { enabled, limit, after, clear, .. } = self.loudness;
                AlarmRule { enabled, limit, after, clear }
            }
            Alarm::Black => self.black,
            Alarm::Frozen => self.frozen,
            Alarm::Blurred => self.blurred,
            Alarm::Flicker => self.flicker,
            Alarm::AvSync => self.av_sync,
            Alarm::Captions => self.captions,
            Alarm::Bitrate => self.bitrate,
            Alarm::Discontinuity => self.discontinuity,
            Alarm::Absent => self.absent,
        }
    }

    fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        for alarm in Alarm::ALL {
            let AlarmRule { enabled, limit, after, clear } = self.rule(alarm);
            let known = rules[alarm];
            rules[alarm] = Rule {
                enabled: enabled.unwrap_or(known.enabled),
                limit: limit.unwrap_or(known.limit),
                after: after.unwrap_or(known.after),
                clear: clear.unwrap_or(known.clear),
            };
        }
        rules.target_lufs = self.loudness.target.unwrap_or(rules.target_lufs);
        rules.true_peak_dbtp = self.loudness.true_peak.unwrap_or(rules.true_peak_dbtp);
        rules
    }
}

impl Config {
    /// What is watched; `None` without `[watch]`.
    pub(crate) fn watched(&self) -> Option<Settings> {
        let watch = self.watch.as_ref()?;
        let except = self.stream.iter().filter(|(_, stream)| stream.watch == Some(false));
        Some(Settings {
            streams: watch.streams.clone(),
            except: except.filter_map(|(name, _)| StreamName::parse(name)).collect(),
            rules: watch.rules(),
            state_file: watch.state_file.clone(),
        })
    }

    /// Where alarms are sent to; `None` without receivers. Call this after the key files have been read.
    pub(crate) fn webhooks(&self) -> Option<webhook::Settings> {
        let Watch { webhook, webhook_networks, webhook_secret, .. } = self.watch.as_ref()?;
        let secret = webhook_secret.clone().filter(|_| !webhook.is_empty())?;
        let destinations = Destinations::new(webhook_networks.clone());
        Some(webhook::Settings { destinations, ..webhook::Settings::new(webhook.clone(), secret) })
    }

    fn check_webhooks(watch: &Watch) -> Result<(), Problem> {
        let destinations = Destinations::new(watch.webhook_networks.clone());
        if let Some(url) = watch.webhook.iter().find(|url| destinations.refuse(url)) {
            let text = format!(
                "{} is an address inside of a network, where a webhook could do harm; list its network in webhook_networks if \
                 it is meant",
                // A path is often the key to a receiver.
                url.authority()
            );
            return problem("watch.webhook", text);
        }
        if !watch.webhook.is_empty() && watch.webhook_secret_file.is_none() {
            let text = "needs webhook_secret_file, by which receivers know that an alarm is yours; head -c 32 /dev/urandom | \
                        base64 | sed s/^/whsec_/ makes one";
            return problem("watch.webhook", text.to_owned());
        }
        if watch.webhook.len() > RECEIVERS_MAX {
            return problem(
                "watch.webhook",
                format!("has {} receivers; {RECEIVERS_MAX} at most", watch.webhook.len()),
            );
        }
        Ok(())
    }

    pub(super) fn check_watch(&self) -> Result<(), Problem> {
        let Some(watch) = &self.watch else {
            let wanted = self.stream.iter().find(|(_, stream)| stream.watch == Some(true));
            return wanted.map_or(Ok(()), |(name, _)| {
                let text = "nothing is watched without a section [watch]; add one that names this stream among its 'streams'";
                problem(format!("stream.{name}.watch"), text.to_owned())
            });
        };
        Self::check_webhooks(watch)?;
        for pattern in &watch.streams {
            // A star stands for letters that a name may have.
            if StreamName::parse(&pattern.replace('*', "a")).is_none() {
                return problem(
                    "watch.streams",
                    format!("{pattern:?} is no stream name, nor one with * in it: {NAME_RULE}"),
                );
            }
        }
        watch.rules().check().or_else(|error| {
            let key = format!("watch.{}.{}", error.alarm, error.key);
            out_of(key, error.found, error.least, error.most)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_a_receiver_by_its_host_alone() {
        let text =
            "[watch]\nwebhook = ['http://127.0.0.1:8090/hooks/0123456789abcdef?room=0123456789abcdef']\n";
        let error = Config::parse(text, "a.toml".as_ref()).unwrap_err().to_string();
        assert!(error.contains(" 127.0.0.1:8090 is an address inside"), "{error}");
        assert!(!error.contains("0123456789abcdef"), "{error}");
    }
}
