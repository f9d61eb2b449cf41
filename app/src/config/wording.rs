//! Turns a parser's errors into messages for the person who edits the configuration: what is wrong, and what to write
//! instead.

/// The offset and the message for toml's error `message` at the byte `at` of `text`.
pub(super) fn of_syntax(text: &str, message: &str, at: Option<usize>) -> (Option<usize>, String) {
    let Some(at) = at else { return (None, message.to_owned()) };
    if message.contains("array")
        && let Some(begins) = open_list(text, at)
    {
        let words = "the list that begins here is not closed: write ] behind its last element";
        return (Some(begins), words.to_owned());
    }
    let line = line_at(text, at);
    let words = match line.split_once('=') {
        None if message.contains("expected `=`") => no_sign(line),
        _ if message.contains("duplicate key") => {
            Some("this name stands in the file already: put both together, and remove one".to_owned())
        }
        Some((key, value)) if has_open_text(without_comment(value)) => {
            Some(format!("a text of {} has no end: write the same quote behind it as before it", key.trim()))
        }
        Some((key, value)) => unquoted(key.trim(), without_comment(value)),
        None => None,
    };
    (Some(at), words.unwrap_or_else(|| message.to_owned()))
}

/// The message for serde's error about a value of the wrong kind.
pub(super) fn of_value(message: &str) -> String {
    if message.starts_with("invalid type: map, expected a sequence") {
        return "a list is wanted: write [\"…\"], or for a section that may stand several times its name in two brackets, \
                [[…]]"
            .into();
    }
    if let Some(found) = message.strip_suffix("expected a boolean") {
        return format!("{found}expected true or false, without quotes");
    }
    // Rust's names of number types mean nothing to operators.
    let numbers = ["u8", "u16", "u32", "u64", "usize"];
    let whole = numbers.iter().find_map(|kind| message.strip_suffix(&format!("expected {kind}")));
    match (whole, message.strip_suffix("expected a sequence")) {
        (Some(found), _) => format!("{found}expected a whole number, without quotes"),
        (_, Some(found)) => format!("{found}expected a list: write it in [ ]"),
        _ => message.to_owned(),
    }
}

/// The offset of the list that is open at `offset`, if there is one and nothing follows it on its line or on the
/// lines after.
fn open_list(text: &str, offset: usize) -> Option<usize> {
    // For a list on the last line, toml reports the place where the list begins.
    let end = text.get(offset..)?.find('\n').map_or(text.len(), |end| offset + end);
    let before = text.get(..end)?;
    let begins = before.rfind("= [").or(before.rfind("=["))?;
    let inside = before.get(begins..)?;
    (inside.matches('[').count() > inside.matches(']').count()).then_some(begins)
}

fn line_at(text: &str, at: usize) -> &str {
    let at = at.min(text.len());
    let (Some(before), Some(behind)) = (text.get(..at), text.get(at..)) else { return "" };
    let begins = before.rfind('\n').map_or(0, |end| end + 1);
    let ends = behind.find('\n').map_or(text.len(), |end| at + end);
    text.get(begins..ends).unwrap_or_default().trim()
}

/// The message for a line without `=`.
fn no_sign(line: &str) -> Option<String> {
    let (key, value) = line.split_once(':').unwrap_or((line, ""));
    let is_key =
        !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    let value = without_comment(value);
    is_key.then(|| match value {
        "" => format!("{key} has no value: write {key} = and the value"),
        _ => format!("a key and its value are parted by =: write {key} = {}", quoted(value)),
    })
}

/// The message for a text without quotes.
fn unquoted(key: &str, value: &str) -> Option<String> {
    let is_list = value.starts_with('[') && value.ends_with(']');
    let elements: Vec<&str> = value.trim_matches(['[', ']']).split(',').map(str::trim).collect();
    let is_bare = |element: &&str| !element.is_empty() && !element.contains(['"', '\'', '{', '[', '=']);
    if !elements.iter().all(is_bare) || (!is_list && elements.len() > 1) {
        return None;
    }
    let is_curly = elements.iter().any(|element| element.starts_with(CURLY));
    let written: Vec<String> =
        elements.into_iter().map(|element| quoted(element.trim_matches(CURLY))).collect();
    Some(match (is_list, written.join(", ")) {
        (true, list) if is_curly => format!("texts stand in straight quotes: write {key} = [{list}]"),
        (false, text) if is_curly => format!("a text stands in straight quotes: write {key} = {text}"),
        (true, list) => format!("texts stand in quotes: write {key} = [{list}]"),
        (false, text) if text == "true or false" => format!("write {key} = {text}"),
        (false, text) => format!("a text stands in quotes: write {key} = {text}"),
    })
}

/// Quotes of word processors, which mean nothing in TOML.
const CURLY: [char; 7] = ['“', '”', '„', '‘', '’', '«', '»'];

fn quoted(value: &str) -> String {
    let is_number = value.parse::<f64>().is_ok();
    match value.to_ascii_lowercase().as_str() {
        "yes" | "no" | "on" | "off" => "true or false".into(),
        "true" | "false" => value.to_ascii_lowercase(),
        _ if is_number || value.starts_with(['"', '\'', '[']) => value.into(),
        _ => format!("\"{value}\""),
    }
}

/// Whether `value` contains a text without a closing quote.
fn has_open_text(value: &str) -> bool {
    let mut open = None;
    for character in value.chars().filter(|character| ['"', '\''].contains(character)) {
        match open {
            None => open = Some(character),
            Some(quote) if quote == character => open = None,
            Some(_) => {}
        }
    }
    open.is_some()
}

fn without_comment(value: &str) -> &str {
    value.split_once('#').map_or(value, |(value, _)| value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kinds_are_named_as_people_name_them() {
        for (said, told) in [
            (
                "invalid type: string \"two\", expected usize",
                "invalid type: string \"two\", expected a whole number, without quotes",
            ),
            (
                "invalid type: integer `1`, expected a sequence",
                "invalid type: integer `1`, expected a list: write it in [ ]",
            ),
            ("missing field `key`", "missing field `key`"),
        ] {
            assert_eq!(of_value(said), told);
        }
    }

    proptest! {
        /// Whatever stands in a file, and wherever toml stops.
        #[test]
        fn there_are_words_for_every_text(
            text in "([a-z]{1,3}|=|\\[|\\]|\"|'|#|\n|,|:| |é){0,30}",
            at in 0_usize..40,
            message in "(array|duplicate key|string, expected `\"`|key with no value, expected `=`)",
        ) {
            let (place, words) = of_syntax(&text, &message, Some(at));
            prop_assert!(place.is_some() && !words.is_empty());
        }
    }
}
