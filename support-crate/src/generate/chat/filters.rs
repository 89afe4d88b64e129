//! Filters and methods of templates, where minijinja's own are not transformers', or take any size that they are given.

use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat;

use super::template::LONGEST;

type Made<T = Value> = Result<T, Error>;

/// The largest size that a filter is asked for: more than any prompt has of anything.
const MOST: usize = 1_000_000;

/// Lists in lists.
const DEEPEST: usize = 100;

pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("list", list);
    environment.add_filter("indent", indent);
    environment.add_filter("format", format_values);
    environment.add_filter("tojson", to_json);
    environment.set_unknown_method_callback(method);
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn check_size(size: usize) -> Made<()> {
    if size > MOST {
        Err(refused(format!("it asks for {size} entries or characters; {MOST} are the most")))
    } else {
        Ok(())
    }
}

fn batch(state: &State<'_, '_>, value: Value, count: usize, fill_with: Option<Value>) -> Made {
    check_size(count.max(value.len().unwrap_or(0)))?;
    filters::batch(state, value, count, fill_with)
}

fn slice(state: &State<'_, '_>, value: Value, count: usize, fill_with: Option<Value>) -> Made {
    check_size(count.max(value.len().unwrap_or(0)))?;
    filters::slice(state, value, count, fill_with)
}

fn list(state: &State<'_, '_>, value: Value) -> Made {
    check_size(value.len().unwrap_or(0))?;
    filters::list(state, value)
}

fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Made {
    let width_by_name: Option<usize> = named.peek("width")?;
    let wanted = width.or(width_by_name).unwrap_or(4);
    check_size(wanted)?;
    if value.as_str().split('\n').count().saturating_mul(wanted) > LONGEST {
        return Err(refused("what it indents has no end"));
    }
    filters::indent(value, width, first, blank, named)
}

fn format_values(state: &State<'_, '_>, text: &Value, values: Rest<Value>) -> Made {
    check_widths(text.as_str().unwrap_or_default(), '%')?;
    filters::format(state, text, values)
}

fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Made {
    match (name, value.as_str()) {
        ("format", Some(text)) => check_widths(text, '{')?,
        // The library's own would look for it for ever.
        ("count", Some(text)) if args.first().and_then(Value::as_str) == Some("") => {
            return Ok(Value::from(text.chars().count() + 1));
        }
        _ => (),
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

/// Refuses a format with a width or a precision that is too large. A field begins with `mark`: `%` or `{`.
fn check_widths(text: &str, mark: char) -> Made<()> {
    for field in text.split(mark).skip(1) {
        let field = field.strip_prefix('(').and_then(|named| named.split_once(')')).map_or(field, |(_, field)| field);
        let is_over = |letter: char| match mark {
            '{' => letter == '}',
            _ => !letter.is_ascii_digit() && !"#- +.".contains(letter),
        };
        let field = &field[..field.find(is_over).unwrap_or(field.len())];
        for digits in field.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            check_size(digits.parse().unwrap_or(usize::MAX))?;
        }
    }
    Ok(())
}

/// `json.dumps` of Python, as transformers has templates call it: nothing is escaped for HTML.
///
/// Source: `tojson` in `_compile_jinja_template` of transformers `utils/chat_template_utils.py`. Keys of a dictionary
/// that a template makes are in alphabetical order here, as minijinja has them, and as they were written there.
fn to_json(value: &Value, args: Rest<Value>) -> Made {
    let (given, named) = from_args::<(&[Value], Kwargs)>(&args)?;
    let option = |place: usize, name: &str| -> Made {
        let by_name: Option<Value> = named.get(name)?;
        Ok(given.get(place).cloned().or(by_name).unwrap_or_default())
    };
    let is_said = |value: &Value| !value.is_undefined() && !value.is_none();
    let (ascii, indent) = (option(0, "ensure_ascii")?, option(1, "indent")?);
    let (separators, sorted) = (option(2, "separators")?, option(3, "sort_keys")?);
    named.assert_all_used()?;
    let indent = match indent.as_str().map(str::to_owned) {
        Some(text) => Some(text),
        None if is_said(&indent) => {
            let width = usize::try_from(i64::try_from(indent)?).unwrap_or(0);
            check_size(width)?;
            Some(" ".repeat(width))
        }
        None => None,
    };
    check_size(indent.as_ref().map_or(0, String::len))?;
    let separator = |place: usize, otherwise: &str| -> Made<String> {
        if !is_said(&separators) {
            return Ok(otherwise.to_owned());
        }
        let text = separators.get_item_by_index(place)?;
        text.as_str().map(str::to_owned).ok_or_else(|| refused("`separators` are two strings"))
    };
    let comma = separator(0, if indent.is_some() { "," } else { ", " })?;
    let colon = separator(1, ": ")?;
    let mut json = Json { text: String::new(), ascii: ascii.is_true(), sorted: sorted.is_true(), indent, comma, colon };
    json.write(value, 0)?;
    Ok(Value::from(json.text))
}

/// What is written, and how.
struct Json {
    text: String,
    /// Whether other letters are written by their numbers.
    ascii: bool,
    /// Whether keys are sorted.
    sorted: bool,
    /// What each level begins lines with; `None` for a single line.
    indent: Option<String>,
    comma: String,
    colon: String,
}

impl Json {
    fn write(&mut self, value: &Value, depth: usize) -> Made<()> {
        if depth > DEEPEST || self.text.len() > LONGEST {
            return Err(refused("what it writes as JSON has no end"));
        }
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&number(value)?),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.text.push('[');
                let mut count = 0;
                for (index, item) in value.try_iter()?.enumerate() {
                    self.begin(index, depth);
                    self.write(&item, depth + 1)?;
                    count = index + 1;
                }
                self.end(']', count, depth);
            }
            ValueKind::Map => {
                let mut entries = Vec::new();
                for key in value.try_iter()? {
                    entries.push((key_text(&key)?, value.get_item(&key)?));
                }
                if self.sorted {
                    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.text.push('{');
                for (count, (key, value)) in entries.iter().enumerate() {
                    self.begin(count, depth);
                    self.string(key);
                    self.text.push_str(&self.colon);
                    self.write(value, depth + 1)?;
                }
                self.end('}', entries.len(), depth);
            }
            other => return Err(refused(format!("a value of type {other} is not JSON serializable"))),
        }
        Ok(())
    }

    /// Begins an entry, after so many.
    fn begin(&mut self, count: usize, depth: usize) {
        if count > 0 {
            self.text.push_str(&self.comma);
        }
        self.line(depth + 1);
    }

    /// Ends a list of so many entries.
    fn end(&mut self, closing: char, count: usize, depth: usize) {
        if count > 0 {
            self.line(depth);
        }
        self.text.push(closing);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.text.push('\n');
            (0..depth).for_each(|_| self.text.push_str(indent));
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                letter if letter < ' ' || self.ascii && !(' '..='~').contains(&letter) => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        self.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                letter => self.text.push(letter),
            }
        }
        self.text.push('"');
    }
}

/// A key, as Python writes those that are no strings.
fn key_text(key: &Value) -> Made<String> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number => number(key),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        other => Err(refused(format!("a key of type {other} is not JSON serializable"))),
    }
}

/// A number, as Python's `repr` writes it.
fn number(value: &Value) -> Made<String> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let number = f64::try_from(value.clone())?;
    if number.is_nan() {
        return Ok("NaN".to_owned());
    }
    if number.is_infinite() {
        return Ok(if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned());
    }
    // Both write an exponent for the same numbers, but Python with a sign and at least two digits.
    let text = format!("{number:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return Ok(text) };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    Ok(format!("{digits}e{sign}{exponent:0>2}"))
}
