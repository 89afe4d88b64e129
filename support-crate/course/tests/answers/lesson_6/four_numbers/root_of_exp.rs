// Takes `exp` of all nats first and then a root, which is infinite for a long text.
// wrong: is inf, expected
fn four_numbers(nats: f64, tokens: usize, text: &str) -> [f64; 4] {
    let words = text.split_whitespace().count() as f64;
    let bytes = text.len() as f64;
    let all = nats.exp();
    [
        all.powf(1.0 / tokens as f64),
        all.powf(1.0 / words),
        all.powf(1.0 / bytes),
        nats / bytes / std::f64::consts::LN_2,
    ]
}
