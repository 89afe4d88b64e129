// As it comes.
// not yet
fn quality_of(changes: &[TextChange], noise: &[TextChange]) -> Quality {
    todo!()
}
