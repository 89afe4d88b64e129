// One thread does it all.
// wrong: one part has
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    part(0, y);
}
