// One choice too many.
// wrong: nothing is kept
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();
    choices[..choices.len().min(right + 2)].to_vec()
}
