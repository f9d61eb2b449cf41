//! The head of an answer: what is kept of it and goes on to clients.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// The head of an answer: status and fields. The fields are written as lines once, for all readers of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    status: u16,
    /// Lines of fields as they stand in an answer, each with its end.
    lines: String,
}

impl Head {
    /// A head of this status without fields.
    pub fn of_status(status: u16) -> Head {
        Head { status, lines: String::new() }
    }

    /// The head of an object of this media type.
    pub fn new(media_type: &str) -> Head {
        Head::of_status(200).with("Content-Type", media_type)
    }

    /// The same with a field more; control characters are left out of name and value. Fields that frame the body are not
    /// for here.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Head {
        let clean = |text: &str, lines: &mut String| lines.extend(text.chars().filter(|it| !it.is_control()));
        clean(name, &mut self.lines);
        self.lines.push_str(": ");
        clean(value, &mut self.lines);
        self.lines.push_str("\r\n");
        self
    }

    /// It with another `Location`, and without what says something of a body: that names the address which the server knew.
    #[must_use]
    pub fn moved(&self, location: &str) -> Head {
        let is_of_body = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("content-")
                || ["etag", "last-modified", "accept-ranges", "repr-digest", "location"].contains(&&*name)
        };
        let kept = self.fields().filter(|(name, _)| !is_of_body(name));
        let head = kept.fold(Head::of_status(self.status), |head, (name, value)| head.with(name, value));
        head.with("Location", location)
    }

    /// The head with this status and the fields in `lines`, which have the form of [`Head::lines`]; `None` where they have
    /// another form.
    pub fn of_lines(status: u16, lines: &str) -> Option<Head> {
        let mut head = Head::of_status(status);
        for line in lines.split_inclusive("\r\n") {
            let (name, value) = line.strip_suffix("\r\n")?.split_once(": ")?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(char::is_control) {
                return None;
            }
            head = head.with(name, value);
        }
        Some(head)
    }

    /// Status code: 200 where there is an object at all.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The fields as they stand in an answer: lines, each with its end.
    pub fn lines(&self) -> &str {
        &self.lines
    }

    /// Names and values of its fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.split_terminator("\r\n").filter_map(|line| line.split_once(": "))
    }

    /// The value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_made_of_its_lines_again() {
        let head = Head::new("video/mp4").with("ETag", "\"1\"").with("X-Empty", "");
        assert_eq!(Head::of_lines(200, head.lines()), Some(head));
        let old = Head::new("video/mp4").with("Set-Cookie", "a").with("ETag", "\"1\"");
        assert_eq!(old.for_clients(), Head::new("video/mp4").with("ETag", "\"1\""));
        assert_eq!(Head::of_lines(404, ""), Some(Head::of_status(404)));
        for lines in ["A: b", "A b\r\n", ": b\r\n", "A: b\r\n\r\n", "A: b\nC: d\r\n", "A B: c\r\n", "\r\n"] {
            assert_eq!(Head::of_lines(200, lines), None, "{lines:?}");
        }
    }

    #[test]
    fn a_redirect_that_leads_elsewhere_says_nothing_of_a_body() {
        let head = Head::of_status(302)
            .with("Content-Type", "text/html")
            .with("location", "http://origin/b")
            .with("ETag", "\"1\"")
            .with("Cache-Control", "max-age=5");
        let moved = Head::of_status(302).with("Cache-Control", "max-age=5").with("Location", "b");
        assert_eq!(head.moved("b"), moved);
    }
}
