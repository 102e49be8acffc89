// A request that was refused, with the reason that the program gives.

export class ApiError extends Error {
  constructor(problem, status) {
    super(problem?.remedy ? `${problem.title}: ${problem.remedy}` : (problem?.title ?? `the request failed with status ${status}`));
    this.status = status;
  }
}
