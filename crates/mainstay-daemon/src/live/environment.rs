//! Whose variables a configuration is expanded with, and what helps if one is not set.

use std::sync::Arc;

use mainstay::config::Problem;

/// Whose environment a configuration is expanded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EnvironmentOwner {
    /// The person who started the program, and who reads its problems.
    #[default]
    Person,
    /// A daemon. A person who reads a problem has another environment; setting a variable there changes nothing.
    Daemon(DaemonOrigin),
}

/// Which daemon has the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOrigin {
    /// The daemon in words, such as "the daemon (process 7, started at …)".
    pub who: Arc<str>,
    /// Whether a service manager starts it, and gives it its variables.
    pub is_managed: bool,
}

impl EnvironmentOwner {
    /// Says of each variable that is not set which process lacks it, and how it gets there.
    pub fn explain(&self, problems: &mut [Problem]) {
        let origin = match self {
            Self::Person => return,
            Self::Daemon(origin) => origin,
        };
        for problem in problems {
            if let Some(variable) = &problem.unset_variable {
                problem.fix = Some(origin.remedy(variable));
            }
        }
    }
}

impl DaemonOrigin {
    fn remedy(&self, variable: &str) -> String {
        let give = match self.is_managed {
            true => format!(
                "add `Environment={variable}=…` with `systemctl --user edit mainstay.service`, and run `mainstay daemon restart`; or read it from a \
                 file with ${{file:PATH}}"
            ),
            false => format!(
                "run `mainstay daemon restart --env {variable}` in a shell that has it, or, so that the next daemon has it too, read it from a \
                 file with ${{file:PATH}}"
            ),
        };
        format!("{} does not have the variables of your shell: {give}", self.who)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mainstay::Configuration;

    use super::*;

    #[test]
    fn a_problem_names_the_process_that_lacks_the_variable_and_the_way_to_give_it_one() {
        let text = r#"{"mcpServers": {"a": {"command": "${TOKEN}"}}}"#;
        let mut problems = Configuration::parse(text, Path::new("mcp.json"), |_| None)
            .unwrap()
            .problems;
        let mut said = |is_managed| {
            let who = "the daemon (process 7)".into();
            EnvironmentOwner::Daemon(DaemonOrigin { who, is_managed }).explain(&mut problems);
            problems[0].to_string()
        };
        let own = said(false);
        assert!(
            own.contains("the variable TOKEN is not set; the daemon (process 7) does not have"),
            "{own}"
        );
        assert!(own.contains("`mainstay daemon restart --env TOKEN`"), "{own}");
        // A service manager starts the next daemon, which gets no variable of the command.
        let managed = said(true);
        assert!(managed.contains("`Environment=TOKEN=…`"), "{managed}");
        assert!(!managed.contains("--env"), "{managed}");
    }
}
