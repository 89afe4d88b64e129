//! Turns tokens into text as they come: whole characters only, up to the first stop string.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::model::Tokenizer;

/// Turns tokens into text as they come. A character whose bytes are spread over several tokens comes out
/// when it is complete; all pieces together are the tokens' text.
///
/// Source: transformers `generation/streamers.py` (`TextStreamer`) is the example; like `DecodeStream` in the
/// `tokenizers` library, this one looks at only the last few tokens.
///
/// ```
/// use quantlab::generate::{GenerateOptions, TextStream, generate_tokens};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let prompt = loaded.tokenizer.encode("Once upon a time")?;
/// let mut tokens = Vec::new();
/// generate_tokens(&*loaded.model, &[prompt], &GenerateOptions::default(), &mut |_, token| tokens.push(token))?;
/// let mut stream = TextStream::new(&loaded.tokenizer);
/// for token in tokens {
///     print!("{}", stream.push(token)?);
/// }
/// println!("{}", stream.finish()?);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The tokens of the last piece of text, because decoders treat the first token of a text in their
    /// own way, and those that came after them.
    ids: Vec<u32>,
    /// How many of `ids` belong to the last piece.
    context: usize,
    /// The part of the text of `ids` that has already come out.
    told: String,
}

impl<'a> TextStream<'a> {
    /// A stream at its beginning.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, ids: Vec::new(), context: 0, told: String::new() }
    }

    /// A stream that continues a text of these tokens: a space that its first word begins with comes out too, which the
    /// decoders of SentencePiece's vocabularies drop at the beginning of a text.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn after(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self> {
        let mut start = prompt.len().saturating_sub(1);
        // A character may be spread over four tokens, of which the last alone is none.
        while start > prompt.len().saturating_sub(4)
            && tokenizer.decode(&prompt[start..])?.contains(char::REPLACEMENT_CHARACTER)
        {
            start -= 1;
        }
        let ids = prompt[start..].to_vec();
        Ok(Self { tokenizer, context: ids.len(), told: tokenizer.decode(&ids)?, ids })
    }

    /// Takes a token, and returns the text that it completes, which is often empty.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.ids.push(id);
        let text = self.tokenizer.decode(&self.ids)?;
        // What the bytes of an incomplete character decode to.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let is_whole = whole.len() == text.len();
        if !is_whole && !whole.starts_with(&self.told) {
            return Ok(String::new());
        }
        let new = self.untold(whole)?;
        if is_whole && !new.is_empty() {
            self.ids.drain(..self.context);
            self.context = self.ids.len();
            self.told = self.tokenizer.decode(&self.ids)?;
        } else {
            self.told.push_str(&new);
        }
        Ok(new)
    }

    /// What is left when no more tokens come: incomplete characters, as U+FFFD.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn finish(self) -> Result<String> {
        self.untold(&self.tokenizer.decode(&self.ids)?)
    }

    /// The part of `text`, the text of `ids`, that has not come out yet.
    fn untold(&self, text: &str) -> Result<String> {
        match text.strip_prefix(&self.told) {
            Some(new) => Ok(new.to_owned()),
            // A decoder that judges a run of bytes as one (ByteFallback) has taken back what came out before.
            None => self.tokenizer.decode(&self.ids[self.context..]),
        }
    }
}

/// The text of one sequence, up to the first stop string.
pub(super) struct StoppingText<'a> {
    stream: TextStream<'a>,
    stop_strings: &'a [String],
    text: String,
    /// How much of `text` was told, in bytes. What follows may be the start of a stop string.
    told: usize,
    stopped: bool,
}

impl<'a> StoppingText<'a> {
    pub(super) fn new(stream: TextStream<'a>, stop_strings: &'a [String]) -> Self {
        Self { stream, stop_strings, text: String::new(), told: 0, stopped: false }
    }

    /// Takes a token, and tells `on_text` the text that it makes certain. Breaks at a stop string.
    pub(super) fn push(&mut self, id: u32, on_text: &mut dyn FnMut(&str)) -> Result<ControlFlow<()>> {
        let new = self.stream.push(id)?;
        self.text.push_str(&new);
        // No stop string begins in what was told.
        let rest = &self.text[self.told..];
        let found = self.stop_strings.iter().filter_map(|stop| rest.find(stop)).min();
        let certain = found.unwrap_or_else(|| rest.len() - start_of_a_stop_string(rest, self.stop_strings));
        if certain > 0 {
            on_text(&rest[..certain]);
            self.told += certain;
        }
        if found.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        self.text.truncate(self.told);
        self.stopped = true;
        Ok(ControlFlow::Break(()))
    }

    /// The whole text, without the stop string; `on_text` is told what it has not been told yet.
    pub(super) fn finish(self, on_text: &mut dyn FnMut(&str)) -> Result<String> {
        let Self { stream, mut text, told, stopped, .. } = self;
        if !stopped {
            text.push_str(&stream.finish()?);
            if told < text.len() {
                on_text(&text[told..]);
            }
        }
        Ok(text)
    }
}

/// The length, in bytes, of the longest end of `text` that is the beginning of a stop string.
fn start_of_a_stop_string(text: &str, stop_strings: &[String]) -> usize {
    let starts = stop_strings.iter().flat_map(|stop| stop.char_indices().map(|(end, _)| &stop[..end]));
    starts.filter(|start| text.ends_with(start)).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::source::ModelFile;

    /// Byte-level, as GPT-2's.
    fn byte_level() -> Tokenizer {
        Tokenizer::read(&ModelFile::Path(Path::new("tests/golden/gpt2-tiny/tokenizer.json").to_owned())).unwrap()
    }

    /// With words that include their space, and bytes for what is not a word, like Llama's.
    fn byte_fallback() -> Tokenizer {
        let vocab = json!({ "\u{2581}a": 0, "\u{2581}b": 1, "<0xC3>": 2, "<0xA9>": 3, "<0xE2>": 4, "c": 5 });
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null,
            "decoder": { "type": "Sequence", "decoders": [
                { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " },
                { "type": "ByteFallback" }, { "type": "Fuse" },
                { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
            ]},
            "model": { "type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": true },
        });
        let bytes = Cow::Owned(file.to_string().into_bytes());
        Tokenizer::read(&ModelFile::Bytes { name: "tokenizer.json", bytes }).unwrap()
    }

    /// What comes out after each token, and at the end.
    fn pieces(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
        let mut stream = TextStream::new(tokenizer);
        let mut pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
        pieces.push(stream.finish().unwrap());
        pieces
    }

    /// The text up to the stop string, what was told of it piece by piece, and how many tokens it took.
    fn stopped(tokenizer: &Tokenizer, ids: &[u32], stop_strings: &[&str]) -> (String, Vec<String>, usize) {
        let stop_strings: Vec<String> = stop_strings.iter().map(|&stop| stop.to_owned()).collect();
        let mut text = StoppingText::new(TextStream::new(tokenizer), &stop_strings);
        let mut told = Vec::new();
        let mut taken = 0;
        for &id in ids {
            taken += 1;
            if text.push(id, &mut |piece| told.push(piece.to_owned())).unwrap().is_break() {
                break;
            }
        }
        let text = text.finish(&mut |piece| told.push(piece.to_owned())).unwrap();
        assert_eq!(text, told.concat());
        (text, told, taken)
    }

    /// One token for each byte.
    fn bytes(tokenizer: &Tokenizer, text: &[u8]) -> Vec<u32> {
        let id = |byte: &u8| {
            let symbol = match byte {
                b'!'..=b'~' => char::from(*byte),
                b' ' => '\u{120}',
                0x80..=0xA0 => char::from_u32(u32::from(*byte) - 0x7F + 0x121).unwrap(),
                _ => char::from(*byte),
            };
            tokenizer.token_to_id(&symbol.to_string()).unwrap()
        };
        text.iter().map(id).collect()
    }

    #[test]
    fn characters_come_out_whole() {
        let tokenizer = byte_level();
        let ids = bytes(&tokenizer, "a\u{e9}\u{1F600}b".as_bytes());
        assert_eq!(pieces(&tokenizer, &ids), ["a", "", "\u{e9}", "", "", "", "\u{1F600}", "b", ""]);
    }

    #[test]
    fn bytes_that_are_no_character_hold_nothing_back_for_good() {
        let tokenizer = byte_level();
        assert_eq!(pieces(&tokenizer, &bytes(&tokenizer, b"a\xE2b\xE2")), ["a", "", "\u{FFFD}b", "", "\u{FFFD}"]);
    }

    #[test]
    fn spaces_before_words_and_bytes_between_them_stay() {
        let tokenizer = byte_fallback();
        assert_eq!(pieces(&tokenizer, &[0, 1, 5, 2, 3, 0]), ["a", " b", "c", "", "\u{e9}", " a", ""]);
        // The stray byte makes this decoder take back the character before it.
        assert_eq!(tokenizer.decode(&[2, 3, 4, 5]).unwrap(), "\u{FFFD}\u{FFFD}\u{FFFD}c");
        assert_eq!(pieces(&tokenizer, &[2, 3, 4, 5, 0]), ["", "\u{e9}", "", "\u{FFFD}c", " a", ""]);
        assert_eq!(pieces(&tokenizer, &[2, 3, 4]), ["", "\u{e9}", "", "\u{FFFD}"]);
    }

    #[test]
    fn a_stop_string_ends_the_text_across_tokens() {
        let tokenizer = byte_level();
        let ids = bytes(&tokenizer, b"one. STOP two");
        let (text, told, taken) = stopped(&tokenizer, &ids, &["STOP"]);
        assert_eq!((text.as_str(), taken), ("one. ", "one. STOP".len()));
        assert_eq!(told, ["o", "n", "e", ".", " "]);
        // The first to be complete counts.
        assert_eq!(stopped(&tokenizer, &ids, &["STOP two", "OP", "never"]).0, "one. ST");
        // One that has only begun when the tokens end is text.
        let (text, told, taken) = stopped(&tokenizer, &ids, &["two three"]);
        assert_eq!((text.as_str(), told.last().unwrap().as_str(), taken), ("one. STOP two", "two", ids.len()));
    }

    #[test]
    fn a_stop_string_may_end_inside_a_token_or_a_character() {
        let tokenizer = byte_level();
        let ids = bytes(&tokenizer, "caf\u{e9}s".as_bytes());
        assert_eq!(stopped(&tokenizer, &ids, &["f\u{e9}"]), ("ca".to_owned(), vec!["c".to_owned(), "a".to_owned()], 5));
        // 0xC3 alone is the start of many characters, and of no stop string yet.
        assert_eq!(stopped(&tokenizer, &ids, &["\u{e8}"]).0, "caf\u{e9}s");
        // A character that shares its first byte with the stop string's.
        assert_eq!(stopped(&tokenizer, &ids, &["\u{e9}"]).0, "caf");
        let whole = tokenizer.encode("the quick").unwrap();
        assert!(whole.len() < "the quick".len(), "some tokens are longer than a byte");
        assert_eq!(stopped(&tokenizer, &whole, &["e q"]).0, "th");
    }

    #[test]
    fn what_only_looked_like_a_stop_string_is_told_later() {
        let tokenizer = byte_level();
        let (text, told, _) = stopped(&tokenizer, &bytes(&tokenizer, b"aab ab!"), &["aac", "ab?"]);
        assert_eq!(text, "aab ab!");
        assert_eq!(told, ["a", "ab ", "ab!"]);
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_text(ids in prop::collection::vec(0..384_u32, 0..60)) {
            let tokenizer = byte_level();
            let pieces = pieces(&tokenizer, &ids);
            prop_assert_eq!(pieces.concat(), tokenizer.decode(&ids).unwrap());
        }

        #[test]
        fn a_stop_string_is_found_where_the_text_has_it(text in "[ab]{0,20}", stops in prop::collection::vec("[ab]{1,4}", 0..4)) {
            let tokenizer = byte_level();
            let ids = bytes(&tokenizer, text.as_bytes());
            let stop_strings: Vec<&str> = stops.iter().map(String::as_str).collect();
            // The shortest beginning of the text that contains one, and where in it.
            let taken = (0..=text.len()).find(|&end| stops.iter().any(|stop| text[..end].contains(stop)));
            let expected = taken.map_or(text.as_str(), |end| {
                let at = stops.iter().filter_map(|stop| text[..end].find(stop)).min().unwrap();
                &text[..at]
            });
            let (found, _, took) = stopped(&tokenizer, &ids, &stop_strings);
            prop_assert_eq!((found.as_str(), took), (expected, taken.unwrap_or(text.len())));
        }
    }
}
