// The guess in place of the choice.
// wrong: not with the guess in its place
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();
    if right == guesses.len() {
        return choices.to_vec();
    }
    guesses[..=right].to_vec()
}
