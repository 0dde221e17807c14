"""Send the job to a running NVFlare: FedAvg at three sites."""

import sys

from net import Net
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe.prod_env import ProdEnv

recipe = FedAvgRecipe(
    name="beats", model=Net(), min_clients=3, num_rounds=int(sys.argv[2]), train_script="client.py", key_metric="loss"
)
recipe.add_client_file("net.py")
recipe.add_server_file("net.py")
run = recipe.execute(ProdEnv(startup_kit_location=sys.argv[1]))
print(run.get_status(), run.get_result())
