// Never more than were guessed.
// wrong: the choice after them is a new token
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();
    choices[..guesses.len().min(right + 1)].to_vec()
}
