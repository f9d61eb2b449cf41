//! As much of XML 1.0 as tells a well-formed file from another: elements, attributes, references, characters.

/// Checks that `text` is one well-formed element and says which texts stand in its `<text>` elements.
///
/// # Errors
/// What is wrong, and about where.
pub fn texts(text: &str) -> Result<Vec<String>, String> {
    let (mut open, mut texts, mut rest, mut ended) = (Vec::<&str>::new(), Vec::new(), text, false);
    while let Some(at) = rest.find('<') {
        let between = &rest[..at];
        characters(between)?;
        if open.last() == Some(&"text") {
            texts.push(between.to_owned());
        } else if open.is_empty() && !between.trim().is_empty() {
            return Err(format!("text outside of the element: {between:?}"));
        }
        rest = &rest[at + 1..];
        let end = rest.find('>').ok_or_else(|| format!("no end of the tag at {:?}", head(rest)))?;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if ended {
            return Err(format!("a second element: {}", head(tag)));
        }
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(opened) if opened == name.trim_end() => {}
                opened => return Err(format!("</{name}> closes {opened:?}")),
            }
        } else {
            let inner = tag.strip_suffix('/');
            let name = element(inner.unwrap_or(tag))?;
            if inner.is_none() {
                open.push(name);
            }
        }
        ended = open.is_empty();
    }
    if !rest.trim().is_empty() || !ended {
        return Err(format!("open at the end: {open:?}, {:?}", head(rest)));
    }
    Ok(texts)
}

fn head(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A start tag without its brackets: the name and attributes in double quotes, each once.
fn element(tag: &str) -> Result<&str, String> {
    let name_end = tag.find(char::is_whitespace).unwrap_or(tag.len());
    let (name, mut rest) = tag.split_at(name_end);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c))
    };
    if !is_name(name) {
        return Err(format!("no name of an element: {name:?}"));
    }
    let mut seen = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(name);
        }
        let (key, value) = rest.split_once("=\"").ok_or_else(|| format!("no attribute: {:?}", head(rest)))?;
        let (value, after) = value.split_once('"').ok_or_else(|| format!("{key} has no end"))?;
        if !is_name(key) || seen.contains(&key) || value.contains('<') {
            return Err(format!("attribute {key:?} of {name}"));
        }
        characters(value)?;
        seen.push(key);
        rest = after;
    }
}

/// No character that XML cannot hold, no reference that it does not know.
fn characters(text: &str) -> Result<(), String> {
    let bad =
        |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r') || matches!(c, '\u{fffe}' | '\u{ffff}');
    if let Some(character) = text.chars().find(|c| bad(*c)) {
        return Err(format!("{character:?} cannot stand in XML"));
    }
    let known =
        |after: &str| ["amp;", "lt;", "gt;", "quot;", "apos;"].iter().any(|name| after.starts_with(name));
    match text.split('&').skip(1).find(|after| !known(after)) {
        Some(after) => Err(format!("no reference: &{}", head(after))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn what_is_well_formed_is_told_from_what_is_not() {
        assert_eq!(texts("<a b=\"1\"><text>x &amp; y</text><c/></a>\n"), Ok(vec!["x &amp; y".into()]));
        for bad in [
            "",
            "<a>",
            "<a></b>",
            "<a b=1/>",
            "<a b=\"1\" b=\"2\"/>",
            "<a>&nbsp;</a>",
            "<a>\u{1}</a>",
            "<a/><b/>",
            "<a/>x",
            "<a",
            "<a><b></a></b>",
            "<a b=\"<\"/>",
        ] {
            assert!(texts(bad).is_err(), "{bad:?}");
        }
    }
}
