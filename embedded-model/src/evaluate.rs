//! How good the model is: loss on held-out text, facts recalled, and text to read.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use tch::{Kind, Tensor, no_grad};
use tokenizers::Tokenizer;

use crate::corpus::facts::Fact;
use crate::model::Model;
use crate::tokenizer;

/// The prompts of the lessons.
pub const PROMPTS: [&str; 3] =
    ["The capital of France is", "Once upon a time, in a land far, far away,", "To be or not to be, that is the"];
/// How many tokens follow each prompt.
pub const CONTINUATION: usize = 50;
/// Windows of held-out text for the look that is taken during training.
const QUICK_WINDOWS: i64 = 16;
const WINDOWS_AT_ONCE: i64 = 4;

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
    for first in (0..windows).step_by(WINDOWS_AT_ONCE as usize) {
        let count = WINDOWS_AT_ONCE.min(windows - first);
        let part = |rows: &Tensor| rows.narrow(0, first, count);
        let loss = no_grad(|| model.loss(&part(&inputs), &part(&targets), kind));
        total += loss.double_value(&[]) * count as f64;
    }
    total / windows as f64
}

/// The mean loss on a text, in nats per token. Windows overlap by half: every token but the first few hundred
/// sees at least half a window before it, and each is counted once.
pub fn loss(model: &Model, tokenizer: &Tokenizer, text: &str) -> Result<f64> {
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
    Ok(total / count as f64)
}

/// The bits that `xz -9e` makes of each byte of a text, alone and where it has seen the training text before;
/// nothing where xz is not installed.
pub fn xz_bits_per_byte(text: &str, training: &str) -> Option<[f64; 2]> {
    let after = xz_bytes(&format!("{training}\n\n{text}"))?.checked_sub(xz_bytes(training)?)?;
    Some([xz_bytes(text)?, after].map(|bytes| 8.0 * bytes as f64 / text.len() as f64))
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
    fn overlapping_windows_count_every_token_once() {
        let tokenizer = tokenizer::train(["ab cd ef".repeat(10)].into_iter()).expect("a tokenizer");
        let shape = Shape { vocabulary: tokenizer::VOCABULARY as i64, positions: 8, width: 8, layers: 1, heads: 1 };
        let model = Model::new(shape, 1, Device::Cpu);
        let loss = loss(&model, &tokenizer, &"ab cd ef xyz ".repeat(9)).expect("a loss");
        let expected = (tokenizer::VOCABULARY as f64).ln();
        assert!((loss - expected).abs() < 0.1, "{loss}");
    }

    #[test]
    fn a_text_that_xz_has_seen_before_costs_less() {
        let text = "The vector grows when it is full. ".repeat(9);
        if let Some([alone, after]) = xz_bits_per_byte(&text, &text) {
            assert!(0.0 < after && after < alone && alone < 8.0, "{after} {alone}");
        }
    }
}
