//! What a server answers.

use bytes::Bytes;

/// A response with its whole body, or with a head alone that an endless body follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields besides those that frame the body and name the server.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for none.
    pub body: Bytes,
}

impl Response {
    /// A response of `status` without a body.
    pub fn new(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A 200 with a body of this media type.
    pub fn ok(media_type: &str, body: impl Into<Bytes>) -> Response {
        Response::new(200).with_body(media_type, body)
    }

    /// The same with a body.
    pub fn with_body(mut self, media_type: &str, body: impl Into<Bytes>) -> Response {
        self.body = body.into();
        self.with_header("Content-Type", media_type)
    }

    /// The same with a field more.
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// The head for a body of known length: [`Response::body`]'s, or what a `HEAD` would have brought.
    pub fn head(&self, keep_alive: bool) -> Vec<u8> {
        let mut head = self.status_line();
        // A 204 or 304 has no body and must not tell a length (RFC 9110 §8.6).
        if !matches!(self.status, 204 | 304) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str(if keep_alive {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        head.into_bytes()
    }

    /// The head for a body that ends with the connection.
    pub fn endless_head(&self) -> Vec<u8> {
        let mut head = self.status_line();
        head.push_str("Connection: close\r\n\r\n");
        head.into_bytes()
    }

    fn status_line(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\nServer: glassline\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            // A line break in a value would begin another field, which a client could choose (response splitting).
            head.extend(value.chars().filter(|character| !character.is_control()));
            head.push_str("\r\n");
        }
        head
    }
}

/// An error as problem details (RFC 9457): `title` says what, `detail` is a sentence that says what to do.
pub fn problem(status: u16, title: &str, detail: &str) -> Response {
    let body =
        serde_json::json!({ "type": "about:blank", "status": status, "title": title, "detail": detail });
    Response::new(status).with_body("application/problem+json", format!("{body}\n"))
}

/// What a status is called (RFC 9110 §15, and the IANA registry).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_begin_a_field() {
        let response = Response::new(204).with_header("Location", "/a\r\nSet-Cookie: x=1");
        let head = String::from_utf8(response.head(true)).unwrap();
        assert!(head.contains("Location: /aSet-Cookie: x=1\r\n"), "{head}");
        assert!(!head.contains("Content-Length"));
    }

    #[test]
    fn a_problem_is_json_whatever_its_words() {
        let response = problem(409, "taken", "say \"please\"\n");
        let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!((json["status"].as_u64(), json["detail"].as_str()), (Some(409), Some("say \"please\"\n")));
    }
}
