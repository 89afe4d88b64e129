// Shares the perplexity.
// wrong: share the nats first
fn four_numbers(nats: f64, tokens: usize, text: &str) -> [f64; 4] {
    let per = |units: usize| nats / units as f64;
    let (words, bytes) = (text.split_whitespace().count(), text.len());
    [per(tokens).exp(), per(tokens).exp() * tokens as f64 / words as f64, per(bytes).exp(), per(bytes) / 2.0_f64.ln()]
}
