// Nobody has written it yet.
// not yet
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    todo!()
}
