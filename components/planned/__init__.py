"""What is settled before anything is made: the plan's verdict, the cluster, and the arguments that follow from them."""
