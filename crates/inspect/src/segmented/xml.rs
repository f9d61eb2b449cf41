//! XML, as much of it as manifests have: elements with attributes, children and text. No document types, and no entities but
//! those that every document has.

use super::text::{attribute_of_tag, unescaped};

/// Elements within elements.
const DEPTH: usize = 16;
/// Elements of a document.
const ELEMENTS: usize = 200_000;

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    /// Without its namespace's prefix.
    pub(super) name: &'a str,
    /// What stands in its tag.
    tag: &'a str,
    text: &'a str,
    pub(super) children: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    /// Reads a document, and gives its root; `None` where it is not well-formed, or beyond the bounds.
    pub(super) fn parse(text: &'a str) -> Option<Element<'a>> {
        let mut rest = text;
        let mut open: Vec<Element<'a>> = Vec::new();
        let mut count = 0usize;
        loop {
            let (between, behind) = rest.split_once('<')?;
            if let Some(element) = open.last_mut().filter(|_| !between.trim().is_empty()) {
                element.text = between.trim();
            }
            rest = if let Some(comment) = behind.strip_prefix("!--") {
                comment.split_once("-->")?.1
            } else if let Some(instruction) = behind.strip_prefix('?') {
                instruction.split_once("?>")?.1
            } else if behind.starts_with('!') {
                return None;
            } else if let Some(end) = behind.strip_prefix('/') {
                let (name, after) = end.split_once('>')?;
                let element = open.pop().filter(|element| element.name == local(name.trim()))?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => return Some(element),
                }
                after
            } else {
                let (tag, after) = behind.split_at_checked(end_of_tag(behind)?)?;
                let after = after.strip_prefix('>')?;
                let (tag, is_whole) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
                let name = local(tag.split_whitespace().next()?);
                let element = Element { name, tag, text: "", children: Vec::new() };
                count = count.saturating_add(1);
                if count > ELEMENTS || open.len() >= DEPTH {
                    return None;
                }
                match (is_whole, open.last_mut()) {
                    (false, _) => open.push(element),
                    (true, Some(parent)) => parent.children.push(element),
                    (true, None) => return Some(element),
                }
                after
            };
        }
    }

    /// The children of a name.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &Element<'a>> + Clone {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first of them.
    pub(super) fn first(&self, name: &'static str) -> Option<&Element<'a>> {
        self.all(name).next()
    }

    /// An attribute's value.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        attribute_of_tag(self.tag, name).map(unescaped)
    }

    /// An attribute that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        attribute_of_tag(self.tag, name)?.trim().parse().ok()
    }

    /// The text in it.
    pub(super) fn text(&self) -> String {
        unescaped(self.text)
    }
}

/// Where the tag's `>` is: one in quotes is none.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    text.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b'>'
    })
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest() {
        let text = "<?xml version='1.0'?><!-- <x> --><a:A b=\"1>2\"><B>t&amp;u</B><B c='3'/></a:A>";
        let root = Element::parse(text).unwrap();
        assert_eq!((root.name, root.attribute("b").as_deref()), ("A", Some("1>2")));
        let told: Vec<_> = root.all("B").map(|element| (element.text(), element.number("c"))).collect();
        assert_eq!(told, [("t&u".to_owned(), None), (String::new(), Some(3))]);
        let deep = "<a>".repeat(DEPTH + 1);
        for wrong in ["", "<a>", "<a></b>", "<!DOCTYPE a><a/>", "</a>", "<a b=\"></a>", deep.as_str()] {
            assert_eq!(Element::parse(wrong), None, "{wrong}");
        }
    }
}
