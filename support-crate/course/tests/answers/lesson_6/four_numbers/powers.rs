// As powers of e.
// right
fn four_numbers(nats: f64, tokens: usize, text: &str) -> [f64; 4] {
    let e = std::f64::consts::E;
    let words = text.split_whitespace().collect::<Vec<_>>().len();
    let bytes = text.as_bytes().len() as f64;
    [e.powf(nats / tokens as f64), e.powf(nats / words as f64), e.powf(nats / bytes), (nats / bytes) * std::f64::consts::LOG2_E]
}
