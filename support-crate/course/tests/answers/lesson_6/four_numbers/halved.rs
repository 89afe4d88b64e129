// Divides by 2.
// wrong: not by 2
fn four_numbers(nats: f64, tokens: usize, text: &str) -> [f64; 4] {
    let per = |units: usize| nats / units as f64;
    let (words, bytes) = (text.split_whitespace().count(), text.len());
    [per(tokens).exp(), per(words).exp(), per(bytes).exp(), per(bytes) / 2.0]
}
