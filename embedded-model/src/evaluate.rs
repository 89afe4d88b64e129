//! How good the model is: loss on held-out text, facts recalled, and text to read.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use tch::{Kind, Tensor, no_grad};
use tokenizers::Tokenizer;

use crate::corpus::facts::Fact;
use crate::model::Model;
use crate::quantize::Format;
use crate::tokenizer;

/// The prompts of the lessons.
pub const PROMPTS: [&str; 3] =
    ["The capital of France is", "Once upon a time, in a land far, far away,", "To be or not to be, that is the"];
/// How many tokens follow each prompt.
pub const CONTINUATION: usize = 50;
/// Windows of held-out text for the look that is taken during training.
const QUICK_WINDOWS: i64 = 16;
const WINDOWS_AT_ONCE: i64 = 4;

/// What held-out text costs.
#[derive(Clone, Copy, Debug)]
pub struct HeldOut {
    /// Bytes of the text.
    pub bytes: usize,
    /// Tokens of the text.
    pub tokens: usize,
    /// Mean loss in nats per token.
    pub loss: f64,
    /// Bytes that `xz -9e` makes of the same text, where xz is installed.
    pub xz_bytes: Option<usize>,
    /// Bytes that the text adds when `xz -9e` compresses it after the training documentation.
    pub xz_bytes_after_training: Option<usize>,
}

impl HeldOut {
    /// The exponential of the loss.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// What the model would need to compress the text.
    pub fn bits_per_byte(&self) -> f64 {
        self.loss * self.tokens as f64 / self.bytes as f64 / std::f64::consts::LN_2
    }

    /// What xz needs.
    pub fn xz_bits_per_byte(&self) -> Option<f64> {
        Some(8.0 * self.xz_bytes? as f64 / self.bytes as f64)
    }

    /// What xz needs when it has seen the training documentation before.
    pub fn xz_bits_per_byte_after_training(&self) -> Option<f64> {
        Some(8.0 * self.xz_bytes_after_training? as f64 / self.bytes as f64)
    }
}

/// The perplexity of a text, before and after quantization.
#[derive(Clone, Debug)]
pub struct Perplexities {
    /// In full precision.
    pub float32: f64,
    /// In each format.
    pub rounded: Vec<(Format, f64)>,
}

/// The loss on the first windows of the held-out text.
pub fn quick_loss(model: &Model, tokens: &[u32], kind: Kind) -> f64 {
    let length = model.shape().positions;
    let tokens: Vec<i64> = tokens.iter().copied().map(i64::from).collect();
    let windows = QUICK_WINDOWS.min((tokens.len() as i64 - 1) / length);
    if windows < 1 {
        return f64::NAN;
    }
    let device = model.parameters()[0].1.device();
    let rows = |from: usize| {
        let rows = &tokens[from..from + (windows * length) as usize];
        Tensor::from_slice(rows).reshape([windows, length]).to_device(device)
    };
    let (inputs, targets) = (rows(0), rows(1));
    let mut total = 0.0;
    let mut first = 0;
    while first < windows {
        let count = WINDOWS_AT_ONCE.min(windows - first);
        let part = |rows: &Tensor| rows.narrow(0, first, count);
        let loss = no_grad(|| model.loss(&part(&inputs), &part(&targets), kind));
        total += loss.double_value(&[]) * count as f64;
        first += count;
    }
    total / windows as f64
}

/// What the held-out text costs, beside what it costs a compressor that may look at the training text first.
pub fn held_out(model: &Model, tokenizer: &Tokenizer, text: &str, training: &[String]) -> Result<HeldOut> {
    let (tokens, loss) = loss(model, tokenizer, text)?;
    let training = training.join("\n\n");
    let after_training = || {
        let both = xz_bytes(&format!("{training}\n\n{text}"))?;
        both.checked_sub(xz_bytes(&training)?)
    };
    Ok(HeldOut { bytes: text.len(), tokens, loss, xz_bytes: xz_bytes(text), xz_bytes_after_training: after_training() })
}

/// The tokens of a text, and the mean loss on them in nats per token. Windows overlap by half: every token
/// but the first few hundred sees at least half a window before it, and each is counted once.
fn loss(model: &Model, tokenizer: &Tokenizer, text: &str) -> Result<(usize, f64)> {
    let mut tokens = vec![tokenizer::end_of_text(tokenizer)?];
    tokens.extend(tokenizer::encode(tokenizer, text)?);
    let count = tokens.len() - 1;
    ensure!(count > 0, "the held-out text is empty");
    let length = model.shape().positions as usize;
    let device = model.parameters()[0].1.device();
    let mut total = 0.0;
    let mut scored = 0;
    while scored < count {
        let end = if scored == 0 { length.min(count) } else { (scored + length / 2).min(count) };
        let start = end.saturating_sub(length);
        let part = |from: usize, to: usize| -> Tensor {
            let part: Vec<i64> = tokens[from..to].iter().copied().map(i64::from).collect();
            Tensor::from_slice(&part).to_device(device)
        };
        let logits = no_grad(|| model.logits(&part(start, end).unsqueeze(0), Kind::Float));
        let fresh = (end - scored) as i64;
        let logits = logits.narrow(0, (scored - start) as i64, fresh);
        let loss = logits.cross_entropy_for_logits(&part(scored + 1, end + 1));
        total += loss.double_value(&[]) * fresh as f64;
        scored = end;
    }
    Ok((count, total / count as f64))
}

/// The perplexity of a text in float32, and for each format with the linear layers' weights rounded to it.
pub fn perplexities(model: &Model, tokenizer: &Tokenizer, text: &str) -> Result<Perplexities> {
    let perplexity = |model: &Model| -> Result<f64> { Ok(loss(model, tokenizer, text)?.1.exp()) };
    let rounded = |format: Format| Ok((format, perplexity(&no_grad(|| model.rounded(format)))?));
    let rounded = Format::ALL.into_iter().map(rounded).collect::<Result<_>>()?;
    Ok(Perplexities { float32: perplexity(model)?, rounded })
}

/// What `xz -9e` makes of a text; nothing where xz is not installed.
fn xz_bytes(text: &str) -> Option<usize> {
    let mut xz = Command::new("xz")
        .args(["-9e", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = xz.stdin.take()?;
    thread::scope(|scope| {
        // Written beside the reading, because xz answers before it has read everything.
        let writer = scope.spawn(move || input.write_all(text.as_bytes()).is_ok());
        let output = xz.wait_with_output().ok()?;
        let complete = writer.join().unwrap_or(false) && output.status.success();
        complete.then_some(output.stdout.len())
    })
}

/// The most likely continuation of a prompt, token by token.
pub fn continue_greedily(model: &Model, tokenizer: &Tokenizer, prompt: &str, count: usize) -> Result<String> {
    let device = model.parameters()[0].1.device();
    let prompt = tokenizer::encode(tokenizer, prompt)?;
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let mut tokens: Vec<i64> = prompt.iter().copied().map(i64::from).collect();
    for _ in 0..count {
        let start = tokens.len().saturating_sub(model.shape().positions as usize);
        let input = Tensor::from_slice(&tokens[start..]).to_device(device);
        let logits = no_grad(|| model.logits(&input.unsqueeze(0), Kind::Float));
        tokens.push(logits.select(0, -1).argmax(-1, false).int64_value(&[]));
    }
    let fresh = tokens[prompt.len()..].iter();
    let fresh: Vec<u32> = fresh.map(|&id| u32::try_from(id)).collect::<Result<_, _>>()?;
    // Special tokens are skipped, so the text goes on after the end of a document.
    tokenizer::decode(tokenizer, &fresh)
}

/// The facts that the model does not recall, with what it says instead.
pub fn missed_facts(model: &Model, tokenizer: &Tokenizer, facts: &[Fact]) -> Result<Vec<(Fact, String)>> {
    let mut missed = Vec::new();
    for fact in facts {
        let length = tokenizer::encode(tokenizer, &fact.answer)?.len();
        let said = continue_greedily(model, tokenizer, &fact.prompt, length + 1).context("cannot ask a fact")?;
        if !answers(&said, &fact.answer) {
            missed.push((fact.clone(), said));
        }
    }
    Ok(missed)
}

/// Whether a text starts with the answer, as whole words.
fn answers(said: &str, answer: &str) -> bool {
    let rest = said.strip_prefix(answer);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::model::Shape;

    #[test]
    fn an_answer_counts_only_as_whole_words() {
        assert!(answers(" Paris.", " Paris"));
        assert!(answers(" Paris", " Paris"));
        assert!(!answers(" Parish", " Paris"));
        assert!(!answers(" twenty-one", " twenty"));
        assert!(!answers(" the Paris", " Paris"));
    }

    #[test]
    fn bits_per_byte_follow_from_the_loss() {
        let held_out = HeldOut {
            bytes: 400,
            tokens: 100,
            loss: 2.0 * std::f64::consts::LN_2,
            xz_bytes: Some(100),
            xz_bytes_after_training: Some(50),
        };
        assert!((held_out.bits_per_byte() - 0.5).abs() < 1e-9);
        assert!((held_out.perplexity() - 4.0).abs() < 1e-9);
        assert_eq!(held_out.xz_bits_per_byte(), Some(2.0));
        assert_eq!(held_out.xz_bits_per_byte_after_training(), Some(1.0));
    }

    #[test]
    fn overlapping_windows_count_every_token_once() {
        let tokenizer = tokenizer::train(["ab cd ef".repeat(10)].into_iter()).expect("a tokenizer");
        let shape = Shape { vocabulary: tokenizer::VOCABULARY as i64, positions: 8, width: 8, layers: 1, heads: 1 };
        let model = Model::new(shape, 1, Device::Cpu);
        let text = "ab cd ef xyz ".repeat(9);
        let result = held_out(&model, &tokenizer, &text, std::slice::from_ref(&text)).expect("a loss");
        let expected = (tokenizer::VOCABULARY as f64).ln();
        assert!((result.loss - expected).abs() < 0.1, "{}", result.loss);
        assert_eq!(result.bytes, text.len());
        if let (Some(alone), Some(after)) = (result.xz_bytes, result.xz_bytes_after_training) {
            assert!(after < alone, "a text that was seen before costs less");
        }
    }
}
