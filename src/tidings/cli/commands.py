"""Every command of `tidings`: where it is, and its line in the list of commands.

A module is imported when its command is called, so that no command pays for the imports of the others. The
lists of commands therefore show the lines below; a test compares them with the docstrings.
"""

from __future__ import annotations

GROUPS = {
    "filter": (
        "Filters: see how one is understood, compare two, see what part of the event space one asks for."
    ),
    "plan": "Plans: where stores go and which clients move, before anything is touched.",
    "topic": "Topic declarations: check one, and see or change what the network has declared.",
    "view": "Views: filters that the network keeps for clients that cannot send any.",
    "session": "Sessions that brokers keep for MQTT clients.",
    "user": "Users of a broker, their passwords, and what they may do.",
    "workload": "Workloads of a wide-area network: make one with Spark, see what is in it.",
    "pipeline": (
        "The data pipeline on Spark: run its stages, see how they hang together, look at their tables."
    ),
}

# Name: (module and function, first paragraph of the function's docstring).
COMMANDS = {
    "up": (
        "network.up:up",
        (
            "Start a network on this machine: one process per broker, on free ports that only this machine "
            "reaches."
        ),
    ),
    "pub": ("client.pub:pub", "Publish a report, or one for each line of a file."),
    "sub": ("client.sub:sub", "Subscribe, and show what comes until Ctrl-C, or until enough has come."),
    "status": (
        "network.status:status",
        (
            "Show the network that `tidings up` started here: which brokers are ready, in which process "
            "each runs, who is linked with whom, how many MQTT clients there are, what brokers ask each "
            "other for, which broker gathers which topic, and what was refused to clients lately."
        ),
    ),
    "join": (
        "network.join:join",
        "Add a broker to the network that runs here, in the background; or to any other, in the foreground.",
    ),
    "leave": (
        "network.leave:leave",
        "Let a broker of the network here leave for good: nothing is held for it any more.",
    ),
    "forget": (
        "network.forget:forget",
        (
            "Tell the whole network that a broker is gone for good: nothing is held for it, nobody waits "
            "for it."
        ),
    ),
    "down": (
        "network.down:down",
        "Stop the network that `tidings up` started: brokers pass on what they have, and end.",
    ),
    "broker": (
        "network.broker:broker",
        (
            "Run a broker until SIGTERM or Ctrl-C, which drain it: nothing acknowledged is lost, links say "
            "goodbye."
        ),
    ),
    "demo": (
        "demo:demo",
        "See all of it in a few minutes: noisy reports about a city become events, and reach who wants them.",
    ),
    "match": ("files.match:match", "Say for each event which subscriptions get it."),
    "gather": ("files.gather:gather", "Gather reports into events, as a broker's gatherer would."),
    "bench": (
        "client.bench:bench",
        "Put a load on a broker and count what arrives, what is lost, and how long it takes.",
    ),
    "simulate": (
        "research.simulate:simulate",
        "Run a network of brokers in virtual time, and see whether it kept its promises.",
    ),
    "centre": (
        "research.centre:centre",
        "Find where on a tree of brokers the seat of a gathered topic belongs.",
    ),
    "reproduce": (
        "research.reproduce:reproduce",
        "Run a paper's experiments, and see which of its claims hold.",
    ),
    "filter explain": (
        "filter.filter:explain",
        "Show how a filter is understood: its terms, its normal form, its cost, the fields that it needs.",
    ),
    "filter covers": (
        "filter.filter:covers",
        "Say whether a subscriber with filter A gets every event that one with filter B gets.",
    ),
    "filter dz": (
        "filter.dz:dz",
        "Show the part of the event space that a filter asks for, as dz-expressions; or where an event lies.",
    ),
    "plan stores": (
        "plan.stores:stores",
        "Place stores: which brokers keep which topics, so that requests travel little.",
    ),
    "plan communities": (
        "plan.communities:communities",
        (
            "Plan moves: which clients go to which broker, so that those who talk to each other are close "
            "together."
        ),
    ),
    "plan show": ("plan.show:show", "Show a plan: what it does, what it gives, what it costs."),
    "plan check": (
        "plan.check:check",
        (
            "Say whether a plan still fits the network: exit code 0 if it does, 1 if not, with what is in "
            "the way."
        ),
    ),
    "plan try": (
        "plan.trial:try_",
        "Try a plan: run a workload before and after it, and hold what is seen against the forecast.",
    ),
    "plan schema": (
        "plan.schema:schema",
        "Print the JSON Schema of plans: what each key of the two kinds holds.",
    ),
    "topic check": (
        "topic.topic:check",
        "Check a topic declaration and show what it says, defaults included.",
    ),
    "topic declare": (
        "topic.topic:declare",
        "Declare topics to the whole network, or change what is declared.",
    ),
    "topic list": ("topic.topic:list_", "Show the topics that the network has declared."),
    "topic show": (
        "topic.topic:show",
        "Print a declaration as it was given, ready to be changed and declared again.",
    ),
    "topic remove": (
        "topic.topic:remove",
        "Remove a declaration from the whole network; the topic can be used on, as any that is not declared.",
    ),
    "view add": ("topic.view:add", "Add a view to the whole network, or change one."),
    "view list": ("topic.view:list_", "Show the views that the network keeps."),
    "view remove": (
        "topic.view:remove",
        "Remove a view from the whole network; those who have subscribed to it get nothing more.",
    ),
    "session remove": (
        "network.session:remove",
        (
            "End sessions of MQTT clients: their subscriptions, and all that waits for them. A client that "
            "is connected is disconnected; its will is published."
        ),
    ),
    "user add": (
        "network.user:add",
        "Add a user, or give one another password; the file is made if need be.",
    ),
    "user remove": (
        "network.user:remove",
        (
            "Remove a user. Once brokers have read the file (SIGHUP), clients of that name are disconnected, "
            "and refused."
        ),
    ),
    "user list": ("network.user:list_", "List the users of a file, by name."),
    "user check": (
        "network.user:check",
        "Say whether a user may publish, subscribe or declare, and which rule decides.",
    ),
    "workload generate": (
        "workload.generate:generate",
        "Make a workload: who is interested in what and where, what happens, and who reports it.",
    ),
    "workload describe": (
        "workload.describe:describe",
        "See what is in a workload: tables, and plots like the paper's figures.",
    ),
    "workload spec": (
        "workload.spec:spec",
        "Print the spec of a workload as TOML, with what each key means.",
    ),
    "pipeline run": ("pipeline.run:run", "Run stages of the pipeline and write their tables."),
    "pipeline graph": (
        "pipeline.run:graph",
        "Show the stages of the pipeline, the tables that each writes, and those that it reads.",
    ),
    "pipeline show": (
        "pipeline.run:show",
        "Show a table: its columns, its versions, what made it, and its first rows. Spark is not started.",
    ),
    "pipeline gather": (
        "pipeline.gather:gather",
        "Gather reports into events on Spark, exactly as a broker's gatherer would.",
    ),
    "pipeline match": (
        "pipeline.match:match",
        "Say on Spark which subscriptions of a workload get which of its events.",
    ),
    "pipeline explain": (
        "pipeline.match:explain",
        "Say how a job would be done, and why, from its sizes and from samples. Spark is not started.",
    ),
    "pipeline traffic": (
        "pipeline.traffic:traffic",
        "Count from the records of brokers who talks to whom, over which links, how far and how long.",
    ),
}
