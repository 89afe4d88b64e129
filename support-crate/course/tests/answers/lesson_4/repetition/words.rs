// Single words.
// wrong: single words
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.iter().filter(|word| !seen.insert(**word)).count();
    if words.len() < 4 { 0.0 } else { repeated as f64 / words.len() as f64 }
}
