// Cuts where the first other choice stands, found by its value.
// wrong: kept(
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    match guesses.iter().zip(choices).find(|(guess, choice)| guess != choice) {
        Some((_, other)) => {
            let at = choices.iter().position(|choice| choice == other).unwrap();
            choices[..=at].to_vec()
        }
        None => choices.to_vec(),
    }
}
