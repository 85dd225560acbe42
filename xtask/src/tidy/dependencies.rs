//! Which crate may use which: dependencies point up the list, and backends are named at the edges only.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Finding;

/// The workspace's packages from the ground up. A package may use those before it.
const ORDER: [&str; 13] = [
    "music3-text",
    "music3-audio",
    "music3-kernels",
    "music3-nn",
    "music3-model",
    "music3-weights",
    "music3",
    "music3-check",
    "music3-cli",
    "music3-testkit",
    "music3-tests",
    "music3-examples",
    "xtask",
];

/// For development only: any package's tests may use it, no package's own code may.
const TESTKIT: &str = "music3-testkit";

/// Packages without tensors.
const WITHOUT_BURN: [&str; 2] = ["music3-text", "music3-audio"];

/// Packages that may name a backend in their own code: the fast paths, and what ends in a program or a test.
const NAME_BACKENDS: [&str; 5] = ["music3-kernels", "music3-cli", TESTKIT, "music3-tests", "music3-examples"];

/// Packages that are backends, or what a backend is made of, by the start of their names.
const BACKENDS: [&str; 12] = [
    "burn-autodiff",
    "burn-candle",
    "burn-cpu",
    "burn-cubecl",
    "burn-cuda",
    "burn-flex",
    "burn-ndarray",
    "burn-rocm",
    "burn-tch",
    "burn-wgpu",
    "cube",
    "cudarc",
];

/// How one package uses another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its own code, or its build script.
    Normal,
    /// Its tests.
    Development,
}

/// One entry of a package's dependencies.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) default_features: bool,
    pub(crate) features: Vec<String>,
    pub(crate) requirement: String,
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// The workspace's packages, as cargo sees them.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo for the packages of the workspace at `root`.
    ///
    /// # Errors
    /// When cargo refuses or answers in another form.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(root)
            .output()
            .context("`cargo metadata` could not be started")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout).context("`cargo metadata` did not print JSON")?;
        Self::from_metadata(&metadata).context("`cargo metadata` printed something in another form")
    }

    fn from_metadata(metadata: &Value) -> Option<Self> {
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let dependency = |value: &Value| {
            Some(Dependency {
                name: text(&value["name"])?,
                kind: if value["kind"] == "dev" { Kind::Development } else { Kind::Normal },
                default_features: value["uses_default_features"].as_bool()?,
                features: value["features"].as_array()?.iter().map(text).collect::<Option<_>>()?,
                requirement: text(&value["req"])?,
            })
        };
        let package = |value: &Value| {
            let dependencies = value["dependencies"].as_array()?.iter().map(dependency).collect::<Option<_>>()?;
            Some(Package { name: text(&value["name"])?, dependencies })
        };
        Some(Self { packages: metadata["packages"].as_array()?.iter().map(package).collect::<Option<_>>()? })
    }

    /// The number of packages.
    pub(crate) fn len(&self) -> usize {
        self.packages.len()
    }

    /// The packages that any package uses, by name, with repeats.
    pub(crate) fn used(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().flat_map(|package| &package.dependencies).map(|dependency| dependency.name.as_str())
    }

    /// A workspace for tests of the checks: packages with their normal dependencies.
    #[cfg(test)]
    pub(crate) fn of(packages: &[(&str, &[&str])]) -> Self {
        let dependency = |name: &&str| Dependency {
            name: (*name).to_owned(),
            kind: Kind::Normal,
            default_features: false,
            features: Vec::new(),
            requirement: "=0.21.0".to_owned(),
        };
        let package = |(name, uses): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            dependencies: uses.iter().map(dependency).collect(),
        };
        Self { packages: packages.iter().map(package).collect() }
    }
}

/// Finds packages that use one from below them in the list, and packages that the list does not know.
pub(crate) fn check_order(workspace: &Workspace) -> Vec<Finding> {
    let place = |name: &str| ORDER.iter().position(|&known| known == name);
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let Some(own) = place(&package.name) else {
            findings.push(Finding::new(
                &package.name,
                "the package is not in the list of layers; give it its place there and in ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let used = dependency.name.as_str();
            let Some(other) = place(used) else { continue };
            let in_tests = dependency.kind == Kind::Development;
            if used == TESTKIT {
                if !in_tests && own < other {
                    findings.push(Finding::new(
                        &package.name,
                        format!("{TESTKIT} is for tests only; it belongs to the dev-dependencies"),
                    ));
                }
            } else if other >= own {
                findings.push(Finding::new(
                    &package.name,
                    format!("uses {used}, which comes after it; dependencies point up the list"),
                ));
            }
        }
    }
    findings
}

/// Finds Burn where there are no tensors, backends where the code is generic, and Burn crates with default features or
/// of different releases.
pub(crate) fn check_backends(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut release: Option<&str> = None;
    for Package { name, dependencies } in &workspace.packages {
        let mut find = |message: String| findings.push(Finding::new(name, message));
        for dependency in dependencies {
            let used = dependency.name.as_str();
            if !is_burn(used) {
                continue;
            }
            if WITHOUT_BURN.contains(&name.as_str()) {
                find(format!("uses {used}; this crate has no tensors"));
            }
            let edge = dependency.kind == Kind::Development || NAME_BACKENDS.contains(&name.as_str());
            if !edge && is_backend(used) {
                find(format!("names the backend {used}; only {} do, and tests", NAME_BACKENDS.join(", ")));
            }
            if !edge
                && let Some(feature) = dependency.features.iter().find(|feature| is_backend(&format!("burn-{feature}")))
            {
                find(format!(
                    "switches the backend `{feature}` of {used} on; only {} do, and tests",
                    NAME_BACKENDS.join(", ")
                ));
            }
            if dependency.default_features {
                find(format!(
                    "takes {used} with its default features, which name backends; `default-features = false`"
                ));
            }
            if used.starts_with("burn") && *release.get_or_insert(&dependency.requirement) != dependency.requirement {
                find(format!("takes {used} {}, another release than elsewhere", dependency.requirement));
            }
        }
    }
    findings
}

fn is_burn(name: &str) -> bool {
    name == "burn" || name.starts_with("burn-") || is_backend(name)
}

fn is_backend(name: &str) -> bool {
    BACKENDS.iter().any(|backend| name.starts_with(backend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_dependencies_up_the_list() {
        let workspace = Workspace::of(&[("music3-nn", &["music3-kernels", "half"]), ("music3-text", &["tokenizers"])]);
        assert!(check_order(&workspace).is_empty());
    }

    #[test]
    fn finds_dependencies_down_the_list_in_tests_as_well() {
        let mut workspace = Workspace::of(&[("music3-nn", &["music3-model"])]);
        assert_eq!(check_order(&workspace).len(), 1);
        workspace.packages[0].dependencies[0].kind = Kind::Development;
        assert_eq!(check_order(&workspace).len(), 1);
    }

    #[test]
    fn finds_packages_without_a_place() {
        assert_eq!(check_order(&Workspace::of(&[("music3-new", &[])])).len(), 1);
    }

    #[test]
    fn keeps_the_testkit_out_of_the_code_but_not_out_of_tests() {
        let mut workspace = Workspace::of(&[("music3-nn", &[TESTKIT])]);
        assert_eq!(check_order(&workspace).len(), 1);
        workspace.packages[0].dependencies[0].kind = Kind::Development;
        assert!(check_order(&workspace).is_empty());
        assert!(check_order(&Workspace::of(&[("music3-tests", &[TESTKIT])])).is_empty());
    }

    #[test]
    fn finds_burn_where_there_are_no_tensors() {
        for name in WITHOUT_BURN {
            assert_eq!(check_backends(&Workspace::of(&[(name, &["burn"])])).len(), 1);
        }
    }

    #[test]
    fn finds_backends_in_generic_code() {
        for backend in BACKENDS {
            assert_eq!(check_backends(&Workspace::of(&[("music3-model", &[backend])])).len(), 1, "{backend}");
            assert!(check_backends(&Workspace::of(&[("music3-kernels", &[backend])])).is_empty(), "{backend}");
            let mut workspace = Workspace::of(&[("music3-model", &[backend])]);
            workspace.packages[0].dependencies[0].kind = Kind::Development;
            assert!(check_backends(&workspace).is_empty(), "{backend}");
        }
        let mut workspace = Workspace::of(&[("music3-model", &["burn"])]);
        assert!(check_backends(&workspace).is_empty());
        workspace.packages[0].dependencies[0].features = vec!["std".to_owned(), "ndarray".to_owned()];
        assert_eq!(check_backends(&workspace).len(), 1);
    }

    #[test]
    fn finds_default_features_and_a_second_release() {
        let mut workspace = Workspace::of(&[("music3-nn", &["burn"]), ("music3-kernels", &["burn-flex"])]);
        workspace.packages[0].dependencies[0].default_features = true;
        assert_eq!(check_backends(&workspace).len(), 1);
        workspace.packages[1].dependencies[0].requirement = "=0.22.0".to_owned();
        assert_eq!(check_backends(&workspace).len(), 2);
    }

    #[test]
    fn reads_what_cargo_prints() {
        let metadata = serde_json::json!({"packages": [{"name": "music3-nn", "dependencies": [
            {"name": "burn", "kind": null, "uses_default_features": true, "features": ["std"], "req": "=0.21.0"},
            {"name": "half", "kind": "dev", "uses_default_features": false, "features": [], "req": "^2"},
        ]}]});
        let workspace = Workspace::from_metadata(&metadata).expect("cargo's form");
        let [burn, half] = &workspace.packages[0].dependencies[..] else { panic!("two dependencies") };
        assert!(burn.default_features && burn.kind == Kind::Normal && burn.features == ["std"]);
        assert!(!half.default_features && half.kind == Kind::Development);
        assert!(Workspace::from_metadata(&serde_json::json!({"packages": [{}]})).is_none());
    }

    #[test]
    fn the_list_names_the_packages_of_this_workspace() {
        let workspace = Workspace::read(&crate::workspace_root()).expect("this is a workspace");
        let mut names: Vec<&str> = workspace.packages.iter().map(|package| package.name.as_str()).collect();
        let mut listed = ORDER.to_vec();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }
}
