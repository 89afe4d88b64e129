// Subtracts 3 from fewer words.
// wrong: panicked
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = (0..words.len() - 3).filter(|&i| !seen.insert(words[i..i + 4].to_vec())).count();
    repeated as f64 / (words.len() - 3) as f64
}
