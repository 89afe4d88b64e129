// Compares each guess with the choice after it.
// wrong: compare these two
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    let right = guesses.iter().zip(&choices[1..]).take_while(|(guess, choice)| guess == choice).count();
    choices[..=right].to_vec()
}
