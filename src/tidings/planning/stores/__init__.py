"""Where stores go, and which topics each keeps: the algorithms as published, baselines, ours, and a judge."""
