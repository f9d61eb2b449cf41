//! XML, written.

use std::fmt::{Display, Write as _};

/// A document in the making: elements are opened and closed in order, indented by two spaces a level.
#[derive(Debug)]
pub(super) struct Xml {
    out: String,
    open: Vec<&'static str>,
    /// The last tag still takes attributes.
    in_tag: bool,
}

impl Xml {
    pub(super) fn new() -> Xml {
        let out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        Xml { out, open: Vec::new(), in_tag: false }
    }

    /// Opens an element inside the one that is open.
    pub(super) fn open(&mut self, name: &'static str) -> &mut Xml {
        self.end_tag(">\n");
        self.indent();
        let _ = write!(self.out, "<{name}");
        self.open.push(name);
        self.in_tag = true;
        self
    }

    /// Adds an attribute to the element that was just opened.
    pub(super) fn attribute(&mut self, name: &str, value: impl Display) -> &mut Xml {
        let _ = write!(self.out, " {name}=\"");
        escape(&mut self.out, &value.to_string());
        self.out.push('"');
        self
    }

    /// Adds one if there is a value.
    pub(super) fn attribute_if(&mut self, name: &str, value: Option<impl Display>) -> &mut Xml {
        if let Some(value) = value {
            self.attribute(name, value);
        }
        self
    }

    /// Writes an element with text alone in it.
    pub(super) fn text_element(&mut self, name: &str, text: &str) -> &mut Xml {
        self.end_tag(">\n");
        self.indent();
        let _ = write!(self.out, "<{name}>");
        escape(&mut self.out, text);
        let _ = writeln!(self.out, "</{name}>");
        self
    }

    /// Closes the element that was opened last.
    pub(super) fn close(&mut self) -> &mut Xml {
        let Some(name) = self.open.pop() else { return self };
        if self.in_tag {
            self.end_tag("/>\n");
        } else {
            self.indent();
            let _ = writeln!(self.out, "</{name}>");
        }
        self
    }

    /// The document, with all that is open closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }

    fn end_tag(&mut self, with: &str) {
        if std::mem::take(&mut self.in_tag) {
            self.out.push_str(with);
        }
    }

    fn indent(&mut self) {
        for _ in &self.open {
            self.out.push_str("  ");
        }
    }
}

/// Writes text with escapes for the letters that XML gives a meaning.
fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 §2.2 has no other control characters.
            letter if letter < ' ' => out.push(' '),
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest_and_values_are_escaped() {
        let mut xml = Xml::new();
        xml.open("a")
            .attribute("x", "<&\"\n>")
            .open("b")
            .close()
            .text_element("t", "a&b")
            .open("c")
            .attribute("n", 7);
        let text = xml.finish();
        let body = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
        assert_eq!(body, "<a x=\"&lt;&amp;&quot; &gt;\">\n  <b/>\n  <t>a&amp;b</t>\n  <c n=\"7\"/>\n</a>\n");
    }
}
