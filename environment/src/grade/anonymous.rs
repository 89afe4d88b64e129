//! Ids in the place of names, and the file that says whose each is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::report::is_formula;
use super::submission::Submission;
use crate::home::{Home, write_with_mode};

/// Gives each student an id. Ids that the key file has are kept, and new ones are added to it.
pub fn rename(found: &mut [Submission], key_file: &Path, output: &Path) -> Result<()> {
    let key_file = &std::path::absolute(key_file)?;
    if key_file.starts_with(output) {
        bail!(
            "{} would lie among the grades, and say whose they are\n  try: a place outside {}",
            key_file.display(),
            output.display()
        );
    }
    // Another run would lose the ids that this one adds. Where a file system has no locks, it goes without.
    let folder = key_file.parent().unwrap_or(Path::new("/"));
    let lock = format!(".{}.lock", key_file.file_name().unwrap_or_default().to_string_lossy());
    let waiting = || println!("Waiting for another `cargo lab grade`, which adds ids to {}", key_file.display());
    let _alone = Home::at(folder).lock(&lock, waiting).ok();
    let mut ids: BTreeMap<String, String> = match fs::read_to_string(key_file) {
        Ok(text) => text.lines().skip(1).map(|line| entry(line, key_file)).collect::<Result<_>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", key_file.display())),
    };
    for submission in found.iter() {
        while !ids.contains_key(known_as(submission)) {
            let id = new_id()?;
            if !ids.values().any(|there| *there == id) {
                ids.insert(known_as(submission).to_owned(), id);
            }
        }
    }
    for submission in found.iter_mut() {
        submission.student = ids[known_as(submission)].clone();
        submission.id.clone_from(&submission.student);
        submission.shown.clone_from(&submission.student);
    }
    // By id, as the grades are; a list by name would be the order in which they were made.
    found.sort_by(|a, b| (&a.student, &a.lesson).cmp(&(&b.student, &b.lesson)).then(b.modified.cmp(&a.modified)));
    let lines: String = ids.iter().map(|(student, id)| format!("{id},{student}\n")).collect();
    write_with_mode(key_file, format!("id,student\n{lines}").as_bytes(), 0o600)
}

/// The student in the key file: the name, or the id if the name would break the line or be a spreadsheet's formula.
fn known_as(submission: &Submission) -> &str {
    let name = &submission.student;
    if name.contains(char::is_control) || is_formula(name) { &submission.id } else { name }
}

/// An id has no comma; a name may.
fn entry(line: &str, key_file: &Path) -> Result<(String, String)> {
    let (id, student) = line
        .split_once(',')
        .with_context(|| format!("{} is not a key file: {line:?} is not ID,STUDENT", key_file.display()))?;
    Ok((student.to_owned(), id.to_owned()))
}

/// Made from the system's randomness: an id made from a name alone could be guessed.
fn new_id() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 4];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes).context("the system provides no random numbers")?;
    Ok(format!("learner-{:08x}", u32::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    fn of(student: &str) -> Submission {
        Submission {
            student: student.into(),
            id: crate::grade::names::ids([student])[student].clone(),
            lesson: None,
            problem: None,
            file: student.into(),
            shown: format!("{student}.ipynb"),
            modified: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn ids_stay_and_only_the_key_file_has_names() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key.csv");
        let mut found = [of("smith"), of("jones"), of("smith"), of("o'hara, j"), of("a\nlearner-0,smith"), of("=1+1")];
        rename(&mut found, &key, &dir.path().join("out")).unwrap();
        let text = fs::read_to_string(&key).unwrap();
        for one in &found {
            assert!(one.student.starts_with("learner-") && one.shown == one.student);
        }
        let smiths = found.iter().filter(|one| text.contains(&format!("{},smith\n", one.student)));
        assert_eq!(smiths.count(), 2, "{text}");
        assert!(text.contains(",o'hara, j\n") && !text.contains(",="), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let mut again = [of("smith"), of("new")];
        rename(&mut again, &key, &dir.path().join("out")).unwrap();
        assert!(fs::read_to_string(&key).unwrap().contains(text.lines().nth(1).unwrap()));
        assert!(again.iter().any(|one| text.contains(&format!("{},smith\n", one.student))));
        let inside = rename(&mut [of("smith")], &dir.path().join("out/key.csv"), &dir.path().join("out"));
        assert!(inside.unwrap_err().to_string().contains("whose they are"));
    }
}
