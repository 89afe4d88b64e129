//! A model's chat template: what a conversation looks like as the text that it was trained on.

use std::collections::BTreeMap;
use std::io::{self, Write};

use minijinja::{Environment, ErrorKind, context};
use serde::Serialize;

use super::filters;
use crate::error::{Error, Result, guarded};
use crate::source::{ModelFiles, special_token};

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`; templates may know others.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of this role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// A template in Jinja, which makes text of messages.
///
/// Source: `apply_chat_template` and `render_jinja_template` in transformers (`utils/chat_template_utils.py`).
/// Templates cannot ask for the date here, so that a text does not depend on the day it is made: those that would take
/// the date they have for this case, and those that have none are told July 26, 2024, which is Llama's for it.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    /// `bos_token`, `eos_token` and the like, as templates name them.
    special_tokens: BTreeMap<String, String>,
}

/// Steps that a template may take, some hundred of them for a message, and bytes that it may write: many times what the
/// longest conversation needs. What filters are asked for is bounded too. What the language itself makes on the way and
/// writes nowhere is not, since minijinja counts steps and not bytes: a template that doubles a text by `~`, or puts lists
/// into lists, can take all memory or all of the stack.
const STEPS: u64 = 5_000_000;
pub(super) const LONGEST: usize = 64 << 20;

impl ChatTemplate {
    /// A template, with the special tokens that it may name: `bos_token`, `eos_token` ...
    pub fn new(source: impl Into<String>, special_tokens: BTreeMap<String, String>) -> Self {
        Self { source: source.into(), special_tokens }
    }

    /// The template that came with a model.
    ///
    /// # Errors
    /// None came with it; a `tokenizer_config.json` that is damaged.
    pub(super) fn of(files: &ModelFiles) -> Result<Self> {
        let config = files.tokenizer_config()?;
        let source = files.chat_template(&config)?;
        let source = source.ok_or_else(|| {
            Error::input("the model has no chat template: it only continues text")
                .hint("use `generate`, or load a model that was trained to chat, such as `smollm2`")
        })?;
        let tokens = config.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
        let tokens = tokens.filter_map(|(key, value)| Some((key.clone(), special_token(value)?.to_owned())));
        Ok(Self::new(source, tokens.collect()))
    }

    /// The text of a conversation; with `add_generation_prompt`, up to where the assistant's next message begins.
    ///
    /// # Errors
    /// A template that is none, or that refuses these messages (many want user and assistant to take turns), in its own
    /// words; one that does not come to an end.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        // The library panics on some sizes, such as those of a format.
        guarded("minijinja", || self.rendered(messages, add_generation_prompt)).map_err(|error| {
            let error = error.context("the model's chat template");
            error.hint("the template asks for something that no conversation needs; use another one")
        })?
    }

    fn rendered(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let mut environment = Environment::new();
        // As transformers sets Jinja up.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        filters::add_to(&mut environment);
        environment.add_function("raise_exception", |message: String| -> std::result::Result<(), minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        if !self.source.contains("strftime_now is defined") {
            environment.add_function("strftime_now", always_the_same_day);
        }
        environment.set_fuel(Some(STEPS));
        let cannot = |cause: minijinja::Error| {
            let cause = cause.detail().map_or_else(|| cause.to_string(), str::to_owned);
            Error::format(format!("the model's chat template: {cause}"))
        };
        let source = without_generation_marks(&self.source);
        let template = environment.template_from_str(&source).map_err(cannot)?;
        // Templates ask whether the last two are none.
        let known = context! { messages, add_generation_prompt, tools => (), documents => () };
        let special = minijinja::Value::from_serialize(&self.special_tokens);
        let mut text = Limited(Vec::new());
        template.render_captured_to(context! { ..known, ..special }, &mut text).map_err(cannot)?;
        String::from_utf8(text.0).map_err(|_| Error::format("the model's chat template writes no text"))
    }
}

/// A template whose `{% generation %}` blocks, by which transformers marks what the assistant says, are blocks that are
/// always written.
fn without_generation_marks(source: &str) -> String {
    let mut parts = source.split("{%");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (tag, rest) = part.split_once("%}").map_or((part, None), |(tag, rest)| (tag, Some(rest)));
        let word = tag.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        let other = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            word => word,
        };
        text.push_str("{%");
        text.push_str(&tag.replacen(word, other, usize::from(word != other)));
        if let Some(rest) = rest {
            text.push_str("%}");
            text.push_str(rest);
        }
    }
    text
}

/// The date that templates are told which ask for today's without asking whether they may.
fn always_the_same_day(format: &str) -> String {
    let parts = [
        ("%d", "26"),
        ("%m", "07"),
        ("%b", "Jul"),
        ("%B", "July"),
        ("%y", "24"),
        ("%Y", "2024"),
        ("%a", "Fri"),
        ("%A", "Friday"),
        ("%H", "12"),
        ("%M", "00"),
        ("%S", "00"),
    ];
    parts.into_iter().fold(format.to_owned(), |text, (part, value)| text.replace(part, value))
}

/// What is written, up to [`LONGEST`] bytes.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::other("the text has no end"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
