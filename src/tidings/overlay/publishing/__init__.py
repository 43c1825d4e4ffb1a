"""Publishing: publications are carried, acknowledged and kept until everyone has them."""
