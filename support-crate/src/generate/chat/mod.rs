//! Conversations with a model that was trained to have them.

mod filters;
mod settings;
mod template;

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{GenerateOptions, GeneratedTokens, Generation, Sampler, Sequence, StoppingText, TextStream};
use crate::error::{Context, Error, Result};
use crate::model::{CacheFormat, KvCache, Loaded, LogitPositions, TokenBatch};
use crate::output::harmless;
use crate::source::ModelFiles;
pub use template::{ChatTemplate, Message};

/// A conversation, with the keys and values of all that was said: what is new is all that is computed.
///
/// ```no_run
/// use quantlab::model::{LoadOptions, load_model};
///
/// let mut chat = load_model(&["smollm2"], &LoadOptions::default())?.chat()?;
/// chat.system("Answer in one sentence.")?;
/// chat.say("What is the capital of France?")?;
/// chat.say("And of Italy?")?;
/// # Ok::<(), quantlab::error::Error>(())
/// ```
pub struct Chat {
    /// How replies are generated: as the model's `generation_config.json` says, if it has one, and at most 256 tokens;
    /// otherwise the most likely token each time. Keys and values are always kept, and nothing is cut off: `use_cache` and
    /// `truncation` have no effect. Where tokens are drawn, each reply draws from a stream of its own, by the seed and
    /// its place in the conversation.
    pub options: GenerateOptions,
    loaded: Loaded,
    template: ChatTemplate,
    messages: Vec<Message>,
    /// Keys and values, and the format that they were asked for in.
    cache: Option<(KvCache, Option<CacheFormat>)>,
    /// The tokens that the cache holds.
    cached: Vec<u32>,
}

/// What is read of `generation_config.json`.
#[derive(Default, Deserialize)]
struct GenerationConfig {
    do_sample: Option<bool>,
    temperature: Option<f64>,
    top_k: Option<i64>,
    top_p: Option<f64>,
    repetition_penalty: Option<f64>,
    min_new_tokens: Option<usize>,
    stop_strings: Option<StopStrings>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// One, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum StopStrings {
    One(String),
    Several(Vec<String>),
}

/// What transformers has for `top_k` where a file that samples does not say it.
const USUAL_TOP_K: i64 = 50;

impl GenerationConfig {
    fn of(files: &ModelFiles) -> Result<Self> {
        match files.other("generation_config.json") {
            Some(file) => {
                let config: Self = serde_json::from_slice(&file.read_config()?).context(|| file.to_string())?;
                settings::check(&config.others, config.do_sample == Some(true)).context(|| file.to_string())?;
                Ok(config)
            }
            None => Ok(Self::default()),
        }
    }
}

impl Loaded {
    /// Begins a conversation. It takes the model, so that a notebook can keep it from cell to cell;
    /// [`Chat::into_loaded`] gives the model back.
    ///
    /// # Errors
    /// The model has no chat template, or was put together from parts that know nothing of their files; a
    /// `generation_config.json` or `tokenizer_config.json` that cannot be read; a setting of the first that changes what
    /// is generated, and is not computed here.
    pub fn chat(self) -> Result<Chat> {
        let files = self.files.as_ref().ok_or_else(|| {
            Error::input("it is not known where this model came from, and so it has no chat template")
                .hint("load it with `load_model`")
        })?;
        let (template, config) = (ChatTemplate::of(files)?, GenerationConfig::of(files)?);
        let mut options = GenerateOptions { max_new_tokens: 256, ..GenerateOptions::default() };
        options.repetition_penalty = config.repetition_penalty.unwrap_or(options.repetition_penalty);
        options.do_sample = config.do_sample.unwrap_or(options.do_sample);
        options.min_new_tokens = config.min_new_tokens.unwrap_or(options.min_new_tokens);
        options.max_new_tokens = options.max_new_tokens.max(options.min_new_tokens);
        options.stop_strings = match config.stop_strings {
            None => Vec::new(),
            Some(StopStrings::One(text)) => vec![text],
            Some(StopStrings::Several(texts)) => texts,
        };
        // A file that does not sample may have anything for what only that needs: a temperature of 0, for one.
        let given = |value: Option<f64>| value.filter(|&value| options.do_sample || value > 0.0);
        options.temperature = given(config.temperature).unwrap_or(options.temperature);
        options.top_p = given(config.top_p).unwrap_or(options.top_p);
        // There, 0 keeps all.
        let top_k = config.top_k.or(options.do_sample.then_some(USUAL_TOP_K));
        options.top_k = top_k.and_then(|top_k| usize::try_from(top_k).ok()).filter(|&top_k| top_k > 0);
        Ok(Chat { options, loaded: self, template, messages: Vec::new(), cache: None, cached: Vec::new() })
    }
}

impl Chat {
    /// Says what the model is to be like. Many templates have a system message of their own for a conversation without
    /// one.
    ///
    /// # Errors
    /// The conversation has begun, or has a system message.
    pub fn system(&mut self, content: &str) -> Result<()> {
        if let Some(first) = self.messages.first() {
            let begun = match first.role.as_str() {
                "system" => "there is a system message already",
                _ => "the conversation has begun; a system message comes first",
            };
            return Err(Error::input(begun).hint("call `forget` to begin another"));
        }
        self.messages.push(Message::new("system", content));
        Ok(())
    }

    /// Says something, and prints the reply as it comes, in lines of at most 80 characters. It is then the last of
    /// [`messages`](Self::messages).
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub fn say(&mut self, content: &str) -> Result<()> {
        let mut lines = Lines::default();
        let result = self.reply(content, |text| lines.push(text));
        lines.end();
        result.map(drop)
    }

    /// Says something, and returns the reply; `on_text` sees each piece of it as soon as it is known.
    ///
    /// # Errors
    /// What is not allowed in `options`; a conversation that leaves no room for a token in the model's context, or whose
    /// keys and values do not fit into memory; what the template refuses; logits that are NaN. The conversation is then what
    /// it was before.
    pub fn reply(&mut self, content: &str, mut on_text: impl FnMut(&str)) -> Result<Generation> {
        self.options.check()?;
        let reply = self.continue_it(content, &mut on_text)?;
        self.messages.extend([Message::new("user", content), Message::new("assistant", reply.text.clone())]);
        Ok(reply)
    }

    fn continue_it(&mut self, content: &str, on_text: &mut dyn FnMut(&str)) -> Result<Generation> {
        // Not before there is a reply, whatever happens on the way.
        self.messages.push(Message::new("user", content));
        let prompt = self.template.render(&self.messages, true);
        self.messages.pop();
        let prompt = prompt?;
        let Self { loaded, options, cache, cached, messages, .. } = self;
        let model = &*loaded.model;
        // The template has written the token that begins a text, if there is one.
        let ids = loaded.tokenizer.encode_as_it_is(&prompt)?;
        let (prompt_tokens, context_len) = (ids.len(), model.info().context_len);
        let room = context_len.saturating_sub(prompt_tokens);
        if prompt_tokens == 0 || room == 0 {
            return Err(Error::input(format!(
                "the conversation has {prompt_tokens} tokens, and the model's context {context_len}"
            ))
            .hint("call `forget` to begin another"));
        }
        let max_new_tokens = options.max_new_tokens.min(room);
        let needed = prompt_tokens + max_new_tokens;
        // The last token of the prompt is computed in any case: its logits are wanted.
        let known = cached.iter().zip(&ids[..prompt_tokens - 1]).take_while(|(a, b)| a == b).count();
        // Another cache is made only when this one is gone.
        let kept = cache
            .take()
            .filter(|(cache, format)| known > 0 && cache.capacity() >= needed && *format == options.cache_format);
        cached.clear();
        let mut next = if kept.is_some() { known } else { 0 };
        let mut cache_now = match kept {
            Some((mut cache, _)) => {
                // A quantized cache cannot be cut far back, and begins anew.
                if model.truncate(&mut cache, known).is_err() {
                    cache.reset();
                    next = 0;
                }
                cache
            }
            // Room for more than this reply, where there is memory for it.
            None => {
                let new = |capacity| model.new_cache_in(options.cache_format, 1, capacity);
                new((2 * needed).min(context_len)).or_else(|_| new(needed))?
            }
        };
        let mut sampler = Sampler::default();
        // Where nothing was said before, the stream is that of `generate`.
        let mut sequence = Sequence::new(ids, options.seed, messages.len());
        let mut text = StoppingText::new(TextStream::new(&loaded.tokenizer), &options.stop_strings);
        let eos = model.info().eos_token_ids.as_slice();
        let stops = options.stops(eos);
        loop {
            let tokens = TokenBatch::single(&sequence.ids[next..])?;
            let logits = model.forward(&tokens, Some(&mut cache_now), LogitPositions::Last)?;
            next = sequence.ids.len();
            let token = sequence.choose(&mut sampler, options, logits.row(0, 0), eos)?;
            // What ends a reply is no part of its text.
            let has_stop_string = !stops.contains(&token) && text.push(token, on_text)?.is_break();
            if sequence.ends(stops, has_stop_string, max_new_tokens) {
                break;
            }
        }
        cached.extend_from_slice(&sequence.ids[..next]);
        *cache = Some((cache_now, options.cache_format));
        let GeneratedTokens { tokens, finish_reason, .. } = sequence.finish();
        Ok(Generation {
            prompt: content.to_owned(),
            prompt_tokens,
            truncated_tokens: 0,
            tokens,
            text: text.finish(on_text)?,
            finish_reason,
            seed: options.do_sample.then_some(options.seed),
        })
    }

    /// All that was said, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What makes text of them.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// How many tokens the cache holds: what a next reply has in common with them need not be computed again.
    pub fn cached_tokens(&self) -> usize {
        self.cached.len()
    }

    /// Begins another conversation.
    pub fn forget(&mut self) {
        self.messages.clear();
    }

    /// The model.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The model, for other work.
    pub fn into_loaded(self) -> Loaded {
        self.loaded
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat").field("model", &self.loaded.model_id).field("messages", &self.messages).finish()
    }
}

/// Prints text in whole lines, which is what a notebook shows as they come, and none of them is a command to it.
#[derive(Default)]
struct Lines {
    line: String,
}

/// Characters of a line.
const WIDTH: usize = 80;

impl Lines {
    fn push(&mut self, text: &str) {
        self.line.push_str(text);
        while let Some(line) = self.next_line() {
            println!("{line}");
        }
    }

    /// The next whole line, if there is one, as it is to be shown.
    fn next_line(&mut self) -> Option<String> {
        let too_far = self.line.char_indices().nth(WIDTH).map(|(at, _)| at);
        let (end, next) = match (self.line.find('\n'), too_far) {
            (Some(end), too_far) if too_far.is_none_or(|too_far| end <= too_far) => (end, end + 1),
            (_, too_far) => {
                let too_far = too_far?;
                // Where there is no space, as in Chinese, a line ends anywhere.
                let space = self.line[..too_far].rfind(' ').filter(|&end| end > 0);
                space.map_or((too_far, too_far), |space| (space, space + 1))
            }
        };
        // Not the pieces, since a command may begin in one and end in the next.
        let line = harmless(&self.line[..end]);
        self.line.drain(..next);
        Some(line)
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            println!("{}", harmless(&std::mem::take(&mut self.line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_spaces_at_newlines_or_anywhere() {
        let lines = |pieces: &[&str]| {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in pieces {
                lines.line.push_str(piece);
                found.extend(std::iter::from_fn(|| lines.next_line()));
            }
            (found, lines.line)
        };
        let words = "word ".repeat(40);
        let (found, rest) = lines(&[&words]);
        assert!(found.iter().all(|line| line.len() <= WIDTH && !line.ends_with(' ')), "{found:?}");
        assert_eq!(found.iter().map(|line| line.len() + 1).sum::<usize>() + rest.len(), words.len());
        assert_eq!(lines(&["a\n", "\nb"]), (vec!["a".to_owned(), String::new()], "b".to_owned()));
        let chinese = "\u{4f60}".repeat(2 * WIDTH + 5);
        let (found, rest) = lines(&[&chinese]);
        assert_eq!((found.len(), found[1].chars().count(), rest.chars().count()), (2, WIDTH, 5));
        let (found, _) = lines(&["EVC", "XR_BEGIN_CONTENT text/html\n\u{1b}[2", "J\n"]);
        assert_eq!(found, ["EVCXR\u{2060}_BEGIN_CONTENT text/html", "\u{fffd}[2J"]);
        // Longer than a line, and then words.
        let (found, _) = lines(&[&"x".repeat(WIDTH + 1), &" and".repeat(30)]);
        assert!(found.len() == 2 && found.iter().all(|line| line.chars().count() <= WIDTH), "{found:?}");
    }
}
