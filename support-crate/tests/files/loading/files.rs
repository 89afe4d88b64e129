//! What can lie in a model's folder in place of its files.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use quantlab::error::ErrorKind;
use quantlab::model::{Device, load_model_and_tokenizer};

use super::family::GPT2;
use crate::common::copy::{CONFIG, Copy, INDEX, TOKENIZER, WEIGHTS, expect};

const ALL: [&str; 3] = [CONFIG, TOKENIZER, WEIGHTS];

/// A checkpoint that lacks a file.
fn without(name: &str) -> Copy {
    let copy = GPT2.copy();
    fs::remove_file(copy.path(name)).unwrap();
    copy
}

#[test]
fn a_folder_called_like_a_file() {
    for name in ALL {
        let copy = without(name);
        fs::create_dir(copy.path(name)).unwrap();
        expect(&copy.load(), &["cannot open", name, "it is a folder", "is it inside the folder?"]);
    }
}

#[test]
fn a_file_called_like_a_folder() {
    let copy = GPT2.copy();
    let loaded = load_model_and_tokenizer(&[copy.path(WEIGHTS).to_str().unwrap()], "float32", Device::Cpu);
    expect(&loaded, &["model.safetensors is not a folder; hint: a model is a folder with"]);
}

#[test]
fn links_that_lead_nowhere() {
    for name in ALL {
        for target in ["gone", name] {
            let copy = without(name);
            symlink(target, copy.path(name)).unwrap();
            expect(&copy.load(), &["cannot open", name, "it is a broken link", "`cp -rL`"]);
        }
    }
    let copy = Copy::empty();
    symlink("folder", copy.path("folder")).unwrap();
    let loaded = load_model_and_tokenizer(&[copy.path("folder").to_str().unwrap()], "float32", Device::Cpu);
    expect(&loaded, &["folder: it is a broken link", "Too many levels"]);
}

#[test]
fn a_link_to_a_file_is_as_good_as_the_file() {
    let (copy, elsewhere) = (GPT2.copy(), GPT2.copy());
    for name in ALL {
        fs::remove_file(copy.path(name)).unwrap();
        symlink(elsewhere.path(name), copy.path(name)).unwrap();
    }
    copy.load().unwrap();
}

/// Reading one would take forever, or all memory.
#[test]
fn pipes_sockets_and_devices_are_not_read() {
    for name in ALL.into_iter().chain([INDEX]) {
        let makers: [fn(&std::path::Path); 3] = [
            |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            |path| drop(UnixListener::bind(path).unwrap()),
            |path| symlink("/dev/zero", path).unwrap(),
        ];
        for make in makers {
            let copy = without(if name == INDEX { WEIGHTS } else { name });
            make(&copy.path(name));
            expect(&copy.load(), &["cannot open", name, "a pipe, a socket or a device"]);
        }
    }
}

#[test]
fn files_of_gigabytes_are_not_read() {
    for (name, mib) in [(CONFIG, 16), (TOKENIZER, 512), (INDEX, 16)] {
        let copy = without(if name == INDEX { WEIGHTS } else { name });
        // Without blocks on the disk.
        File::create(copy.path(name)).unwrap().set_len((mib << 20) + 1).unwrap();
        expect(&copy.load(), &[name, &format!("has more than {mib} MiB"), "a file of that name is never that large"]);
    }
}

#[test]
fn pointers_of_git_lfs() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258d\
                   aaa5e2ca24d17e2393\nsize 12345\n";
    for name in ALL {
        let copy = without(name);
        fs::write(copy.path(name), pointer).unwrap();
        let loaded = copy.load();
        expect(&loaded, &[name, "is only a Git LFS pointer to the file", "`git lfs pull`"]);
        assert_eq!(loaded.unwrap_err().kind(), ErrorKind::Format);
    }
}

#[test]
fn pickles_whole_and_in_shards() {
    for name in ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"] {
        let copy = GPT2.copy();
        fs::rename(copy.path(WEIGHTS), copy.path(name)).unwrap();
        expect(&copy.load(), &["cannot open", WEIGHTS, "the folder holds a pickle", "safe_serialization=True"]);
    }
    let copy = without(WEIGHTS);
    fs::write(copy.path("training_args.bin"), "").unwrap();
    expect(&copy.load(), &["cannot open", WEIGHTS, "a model is a folder with"]);
}

#[test]
fn a_tokenizer_of_another_kind() {
    let copy = without(TOKENIZER);
    expect(&copy.load(), &["cannot open", TOKENIZER, "copy it from the model that this one was trained from"]);
    for (files, said) in [
        (&["vocab.json", "merges.txt"][..], "makes it from vocab.json and merges.txt: in Python"),
        (&["tokenizer.model"], "makes it from tokenizer.model: in Python"),
    ] {
        let copy = without(TOKENIZER);
        for name in files {
            fs::write(copy.path(name), "").unwrap();
        }
        expect(&copy.load(), &["cannot open", TOKENIZER, said, "`AutoTokenizer.from_pretrained(\"/", "use_fast=True"]);
    }
}

#[test]
fn a_folder_that_is_no_model() {
    expect(&without(CONFIG).load(), &["cannot open", CONFIG, "a model is a folder with config.json, tokenizer.json"]);
}
