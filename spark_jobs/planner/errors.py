"""What can go wrong in the planner: one base class, one subclass per thing that a caller can handle differently."""


class PlannerError(Exception):
    """Base of every error that the planner raises on purpose."""


class InvalidStateError(PlannerError):
    """The cluster state cannot be planned on: it contradicts itself or names what does not exist."""


class RacksUnknownError(InvalidStateError):
    """Some brokers have a rack and others none: the plan waits until all have one, or racks are ignored on purpose."""


class ImpossibleGoalError(PlannerError):
    """No plan meets the goals, e.g. more replicas than eligible brokers or a cap below what a drain needs."""


class SolverFailedError(PlannerError):
    """The flow solver did not return an optimum, or its flow could not be turned into replica lists."""


class PlanRejectedError(PlannerError):
    """The verifier found that a plan breaks a rule, a bound or its certificate; it must not be stored or applied."""
