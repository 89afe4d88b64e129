// Counts what is scored from the beginning of the window.
// wrong: both ranges count from the beginning of the text
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored - start..end - start });
        scored = end;
        start += stride;
    }
    windows
}
