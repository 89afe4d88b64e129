//! Sweeps: what is measured stands in one table, and is measured once. Needs a finished set-up.

#[path = "common/dask.rs"]
mod dask;
#[path = "common/home.rs"]
mod home;
#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use dask::{Dask, scheduler, wait_for_workers};
use home::home;
use lab::{lab, text};
use serde_json::json;

/// Sweeps as a settings file says; whether all was measured, and what was said.
fn sweep(settings: &Path, content: &str) -> (bool, String) {
    fs::write(settings, content).unwrap();
    let done = lab(&["sweep"], &[("--", settings)]);
    (done.status.success(), text(&done.stdout) + &text(&done.stderr))
}

#[test]
fn settings_that_say_nothing_or_something_else_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("few.toml");
    for (content, said) in [
        ("models = [", "few.toml: "),
        ("models = ['embedded']", "nothing is to be measured"),
        ("models = ['embedded']\ninferense = []", "unknown field `inferense`"),
        ("models = 'embedded'\ninference = []", "few.toml: invalid type: string"),
        ("models = ['embedded']\npeers = ['llama.cpp']", "\"llama.cpp\" names no formats"),
        ("models = ['embedded']\ninference = []\nturns = 0", "nothing is to be measured"),
    ] {
        let (is_done, found) = sweep(&settings, content);
        assert!(!is_done && found.contains(said), "{content}: {found}");
    }
}

#[test]
fn tables_and_pages_are_made_of_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let [settings, page, measured] = ["few.toml", "page.md", "few/measured"].map(|name| dir.path().join(name));
    fs::write(&settings, "models = ['m']\ninference = []").unwrap();
    fs::create_dir_all(&measured).unwrap();
    let row = json!({"program": "quantlab", "model": "m", "engine": "kernels", "device": "cpu", "precision": "int8",
                     "batch": 1, "prompt": 128, "context": 16, "prefill_ms": 20.0, "decode_tok_s": 100.0, "threads": 2});
    // Measured before there were turns.
    let one = json!({"unit": {"benchmark": "inference", "model": "m", "arguments": []}, "processor": "2 x P",
                     "machine": "here", "date": "2026-12-31", "state": "0123", "rows": [row]});
    fs::write(measured.join("one.json"), one.to_string()).unwrap();
    let tables = || {
        let page = page.to_string_lossy();
        let done = lab(&["sweep", "--tables", "--page", &page], &[("--", &settings)]);
        (done.status.success(), text(&done.stdout) + &text(&done.stderr))
    };
    fs::write(&page, "text\n<!-- sweep: many -->\n<!-- end -->\n").unwrap();
    let (is_done, said) = tables();
    assert!(!is_done && said.contains("has no place for few") && said.contains("<!-- sweep: few -->"), "{said}");
    fs::write(&page, "text\n<!-- sweep: few -->\nold\n<!-- end -->\nmore\n").unwrap();
    let (is_done, said) = tables();
    assert!(is_done, "{said}");
    let table = "\n**m** on 2 x P; 2026-12-31, 2 threads, each a median of 7 runs:\n\n\
                 | program | format | prefill 128, ms | decode after 16, tok/s |\n| --- | --- | ---: | ---: |\n\
                 | **quantlab** | int8 | 20 | 100 |\n\n";
    let expected = format!("text\n<!-- sweep: few -->\n{table}<!-- end -->\nmore\n");
    assert_eq!(fs::read_to_string(&page).unwrap(), expected);
    let csv = fs::read_to_string(dir.path().join("few/inference.csv")).unwrap();
    assert!(csv.lines().nth(1).is_some_and(|line| line.starts_with("m,kernels,cpu,int8,1,128,16,")), "{csv}");
}

/// A program that says itself what it takes: 10 ms for each token that it reads, 20 ms for each new one after the first.
const PROGRAM: &str = r#"
class Fast:
    packages, formats, batches, vocabulary = ("jupyter_client",), ("f32", "slow"), True, 100
    def __init__(self, model, format, options):
        self.factor = 20 if format == "slow" else 1
    def generate(self, prompts, new_tokens):
        assert all(0 <= token < 100 for prompt in prompts for token in prompt)
        first = 0.01 * self.factor * sum(map(len, prompts))
        return first, first + 0.02 * (new_tokens - 1)
class Single(Fast):
    batches = False
ENGINES = {"fast": Fast, "single": Single}
"#;

#[test]
fn another_program_is_measured_as_the_benchmark_measures() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("engines.py"), PROGRAM).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweep/peers/peers.py");
    let home = home();
    let measure = |program: &str, formats: &str| {
        let mut python = Command::new(home.join("python/bin/python"));
        python.arg("-P").arg(&script).args([program, "--model", "m", "--files", "/none", "--precision", formats]);
        python.args(["--batch", "1,4", "--prompt", "8,32", "--context", "16", "--repeats", "2", "--threads", "3"]);
        let done = python.env("PYTHONPATH", dir.path()).output().unwrap();
        let rows: Vec<serde_json::Value> =
            text(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (done.status.success(), rows, text(&done.stderr))
    };
    let (is_done, rows, said) = measure("fast", "slow,f32");
    assert!(is_done && said.contains("fast reads 16 tokens in 3.2 s in slow, which is left out"), "{said}");
    let found = rows.iter().map(|row| ["batch", "prompt", "prefill_ms", "decode_tok_s"].map(|key| row[key].clone()));
    let found = serde_json::to_value(found.collect::<Vec<_>>()).unwrap();
    let expected = json!([[1, 8, 80.0, 50.0], [1, 32, 320.0, 50.0], [4, 8, 320.0, 200.0], [4, 32, 1280.0, 200.0]]);
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| row["precision"] == "f32" && row["context"] == 16 && row["threads"] == 3));
    assert!(rows[0]["program"].as_str().unwrap().starts_with("jupyter_client "), "{}", rows[0]);
    let (_, rows, _) = measure("single", "f32");
    assert_eq!(rows.iter().map(|row| row["batch"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(1)]);
    for (program, formats, why) in [
        ("none", "f32", "there is no program none; there are fast, single"),
        ("fast", "f32,q9", "fast is not measured in q9, but in f32, slow"),
    ] {
        let (is_done, _, said) = measure(program, formats);
        assert!(!is_done && said.contains(why), "{said}");
    }
}

#[test]
#[ignore = "compiles the benchmark, which takes some minutes"]
fn models_are_measured_once_and_one_that_fails_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("few.toml");
    let few = "models = ['./none', 'embedded']\n\
               inference = ['--precision=float32,int8', '--batch=1', '--prompt=8', '--repeats=1']";
    let (is_done, said) = sweep(&settings, few);
    assert!(!is_done && said.contains("1 of 2 failed"), "{said}");
    assert!(said.contains("inference of ./none: the benchmark ended with"), "{said}");
    let table = fs::read_to_string(dir.path().join("few/inference.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("model,engine,device,precision,batch,prompt,context,"), "{table}");
    assert!(lines[0].contains(",processor,") && lines[0].contains(",decode_tok_s,"), "{table}");
    let precisions: Vec<&str> = lines[1..].iter().map(|line| line.split(',').nth(3).unwrap()).collect();
    assert_eq!(precisions, ["float32", "int8"], "{table}");
    let (_, said) = sweep(&settings, few);
    assert!(said.contains("[2/2] inference of embedded: measured before"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("few/inference.csv")).unwrap(), table);
}

/// What stands for `lab measure-one` in a worker's home: it answers at once, and what it is asked for stands in `log`.
const MEASURES: &str = r#"
import json, os, signal, sys, time
question, here, home = json.load(sys.stdin), json.load(open(os.environ["QUANTLAB_HOME"] + "/is.json")), os.environ["QUANTLAB_HOME"]
def unable(why):
    print(why, file=sys.stderr)
    sys.exit(3)
if here["processor"] == "lame":
    unable("no library here")
if not question["unit"]:
    print("{}" if here["processor"] == "odd" else json.dumps(here))
    sys.exit()
if here["machine"] == "full":
    unable("no space left")
if here["machine"] == "wrong":
    print(json.dumps({"unit": question["unit"], "state": "another", "processor": here["processor"]}))
    sys.exit()
model, mark = question["unit"]["model"], f"{home}/../killed"
def log(what):
    with open(f"{home}/../log", "a") as file:
        file.write(json.dumps([what, here["machine"], model]) + "\n")
log("begins")
if model == "kills" and here["machine"] == "a" and not os.path.exists(mark):
    open(mark, "w").close()
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit()
time.sleep(0.5)
log("ends")
if model == "fails":
    sys.exit("there is no such model")
print(json.dumps({"unit": question["unit"], "processor": here["processor"], "machine": here["machine"], "date": "2026-12-31",
                  "state": question["state"], "rows": [{"model": model, "tok": 1.5}]}))
"#;

#[test]
fn each_kind_of_processor_measures_everything_once_and_each_machine_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let home = home();
    assert!(Dask::run(&["--version"]).0.wait().unwrap().success());
    let (_scheduler, address) = scheduler(dir.path(), "0");
    let worker = |name: &str, machine: &str, processor: &str| {
        let own = dir.path().join(name);
        fs::create_dir_all(own.join("bin")).unwrap();
        fs::write(own.join("is.json"), json!({"processor": processor, "machine": machine}).to_string()).unwrap();
        let program = format!("#!{}{MEASURES}", home.join("python/bin/python").display());
        fs::write(own.join("bin/lab"), program).unwrap();
        fs::set_permissions(own.join("bin/lab"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(home.join("dask/python/bin/dask"));
        command
            .args(["worker", &address, "--nthreads=2", "--no-nanny", "--no-dashboard", "--local-directory"])
            .arg(&own);
        command.env("QUANTLAB_HOME", &own).env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("dask"));
        Dask(command.spawn().unwrap())
    };
    let _workers = [
        worker("first", "a", "one, old"),
        worker("second", "a", "one, old"),
        worker("third", "b", "other"),
        worker("fourth", "c", "lame"),
        worker("fifth", "d", "odd"),
        // What they are given, others of their kind measure.
        worker("sixth", "full", "other"),
        worker("seventh", "wrong", "one, old"),
    ];
    let settings = dir.path().join("few.toml");
    fs::write(&settings, "models = ['x', 'kills', 'fails', 'y', 'x']\ninference = ['--batch=1']").unwrap();
    wait_for_workers(&home, &address, 7);
    let sweep = || {
        let done = lab(&["sweep", "--parquet", "--scheduler", &address], &[("--", &settings)]);
        (done.status.success(), text(&done.stdout) + &text(&done.stderr))
    };
    let (is_done, said) = sweep();
    assert!(!is_done && said.contains("2 failed; the same command tries again"), "{said}");
    assert!(said.contains("inference of fails on other: there is no such model"), "{said}");
    for why in ["no library here", "it does not say what it is", "no space left", "it answers what it was not asked"] {
        assert!(said.contains(why), "{why}: {said}");
    }
    for kind in ["one, old", "other"] {
        assert!(said.contains(&format!("{kind}: 4 to be measured, 0 measured before")), "{said}");
    }
    let table = fs::read_to_string(dir.path().join("few/inference.csv")).unwrap();
    for row in ["kills,2026-12-31,b,other,", "x,2026-12-31,a,\"one, old\",", "y,2026-12-31,b,other,"] {
        assert_eq!(table.lines().filter(|line| line.starts_with(row)).count(), 1, "{table}");
    }
    assert_eq!(table.lines().count(), 1 + 6, "{table}");
    // One at a time on each machine; what a worker died of was begun once more.
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let lines: Vec<[String; 3]> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let killed = lines.iter().filter(|[what, _, model]| what == "begins" && model == "kills").count();
    assert_eq!(killed, 3, "{log}");
    for machine in ["a", "b"] {
        let mut open = 0;
        for [what, _, model] in lines.iter().filter(|[_, of, _]| of == machine) {
            open += if what == "begins" { 1 } else { -1 };
            assert!((0..=1).contains(&open) || model == "kills", "{log}");
            // The one that killed its worker says no end.
            open = open.clamp(0, 1);
        }
    }
    let mut python = Command::new(home.join("sweep/python/bin/python"));
    let program = "import polars, sys; t = polars.read_parquet(sys.argv[1]); print(t.shape, t['tok'].sum())";
    let done = python.args(["-c", program]).arg(dir.path().join("few/inference.parquet")).output().unwrap();
    assert_eq!(text(&done.stdout), "(6, 7) 9.0\n", "{}", text(&done.stderr));

    // Only what failed is tried again.
    let (is_done, said) = sweep();
    assert!(!is_done && said.contains("other: 1 to be measured, 3 measured before"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("few/inference.csv")).unwrap(), table);
}
