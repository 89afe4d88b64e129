// Takes only single spaces for gaps.
// wrong: the repetition of
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split(' ').collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();
    if words.len() < 4 { 0.0 } else { repeated as f64 / (words.len() - 3) as f64 }
}
