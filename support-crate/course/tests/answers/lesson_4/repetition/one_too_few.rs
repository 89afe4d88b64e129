// Divides by one run too few.
// wrong: has n - 3 runs of four
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();
    if words.len() < 5 { 0.0 } else { repeated as f64 / (words.len() - 4) as f64 }
}
