//! HTTP/1.1 from a hostile peer: the first byte says where to cut, the rest is read by both ends.

use glassline_delivery::http1::{Limits, Method, Response, client, preferred_coding, server};
use glassline_delivery::pull::stream_media_type;
use glassline_media::Time;

/// Reads `data` as requests and as a response. Only panics and endless loops fail.
pub fn run(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let (first, second) = wire.split_at(wire.len() * usize::from(cut) / 256);

    let mut server = server::Server::new(Limits::DEFAULT, Time::ZERO);
    'server: for mut input in [first, second] {
        loop {
            let before = input.len();
            match server.next(&mut input, Time::ZERO) {
                Ok(Some(server::Event::Data(data))) => assert!(!data.is_empty() && input.len() < before),
                Ok(Some(server::Event::Request(request))) => {
                    let _ = (request.parameter("key"), request.expects_continue());
                    let hosts = request.headers.all("host").count();
                    assert!(hosts <= 1 && request.host().is_some() == (hosts == 1), "one good host at most");
                    let _ = preferred_coding(&request.headers, &["br", "gzip"]);
                    let whole = Response::ok("text/plain", "0123456789").with_header("ETag", "\"a\"");
                    assert!(whole.for_request(&request).body.len() <= 300);
                }
                Ok(Some(server::Event::End)) => server.done(Time::ZERO),
                Ok(None) => break,
                Err(_) => break 'server,
            }
        }
        assert!(input.is_empty(), "a server that asks for more has taken all");
    }
    let _ = server.end();

    let mut client = client::Request::new(Method::Get, "host", "/").client(Limits::DEFAULT);
    'client: for mut input in [first, second] {
        loop {
            match client.next(&mut input) {
                Ok(Some(client::Event::End)) | Err(_) => break 'client,
                Ok(Some(client::Event::Head(head))) => {
                    let _ = head.headers.first("content-type").and_then(stream_media_type);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
    }
    let _ = client.end();
}
