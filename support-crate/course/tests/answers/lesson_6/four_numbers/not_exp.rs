// Losses.
// wrong: a perplexity is `exp`
fn four_numbers(nats: f64, tokens: usize, text: &str) -> [f64; 4] {
    let per = |units: usize| nats / units as f64;
    let (words, bytes) = (text.split_whitespace().count(), text.len());
    [per(tokens), per(words), per(bytes), per(bytes) / 2.0_f64.ln()]
}
