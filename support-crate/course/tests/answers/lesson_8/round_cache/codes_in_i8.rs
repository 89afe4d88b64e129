// Codes as i8, which end at 127.
// wrong: 8 bits
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    let height = numbers.len() / width;
    let mut groups: Vec<Vec<usize>> = vec![];
    match along {
        Along::Tokens => {
            for channel in 0..width {
                let column: Vec<usize> = (0..height).map(|token| token * width + channel).collect();
                groups.extend(column.chunks(GROUP).map(|group| group.to_vec()));
            }
        }
        Along::Channels => {
            for token in 0..height {
                let row: Vec<usize> = (0..width).map(|channel| token * width + channel).collect();
                groups.extend(row.chunks(GROUP).map(|group| group.to_vec()));
            }
        }
    }
    let mut rounded = numbers.to_vec();
    for group in &groups {
        let low = group.iter().map(|i| numbers[*i]).fold(f32::INFINITY, f32::min);
        let high = group.iter().map(|i| numbers[*i]).fold(f32::NEG_INFINITY, f32::max);
        let step = (high - low) / ((1u32 << bits) - 1) as f32;
        for i in group {
            rounded[*i] = if step == 0.0 { numbers[*i] } else {
                let code = f32::from(((numbers[*i] - low) / step).round() as i8);
                low + code * step
            };
        }
    }
    rounded
}
