//! Whose variables a configuration is expanded with, and what helps if one is not set.

use mainstay::config::Problem;

/// Whose environment a configuration is expanded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvironmentOwner {
    /// The person who started the program, and who reads its problems.
    #[default]
    Person,
    /// The daemon. A person who reads a problem has another environment; setting a variable there changes nothing.
    Daemon,
}

impl EnvironmentOwner {
    /// Says of each variable that is not set how it gets into this environment.
    pub fn explain(self, problems: &mut [Problem]) {
        if self == Self::Person {
            return;
        }
        for problem in problems {
            if let Some(variable) = &problem.unset_variable {
                problem.fix = Some(format!(
                    "the daemon does not have the variables of your shell: run `mainstay daemon restart --env {variable}` in a shell that \
                     has it, or, so that the next daemon has it too, read it from a file with ${{file:PATH}}"
                ));
            }
        }
    }
}
