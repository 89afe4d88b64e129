// Scores the first token.
// wrong: nothing before it predicts it
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 0);
    while scored < tokens && tokens > 1 {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}
