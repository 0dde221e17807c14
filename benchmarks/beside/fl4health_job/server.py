"""The server of FL4Health: FedAvg at three sites."""

import sys
from pathlib import Path

import flwr
from fl4health.client_managers.base_sampling_manager import SimpleClientManager
from fl4health.servers.base_server import FlServer
from fl4health.strategies.basic_fedavg import BasicFedAvg
from fl4health.utils.parameter_extraction import get_all_model_parameters
from net import Net


def config(current_round):
    return {"local_epochs": 1, "batch_size": 32, "current_server_round": current_round}


address, tls, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
strategy = BasicFedAvg(
    min_fit_clients=3,
    min_evaluate_clients=3,
    min_available_clients=3,
    on_fit_config_fn=config,
    on_evaluate_config_fn=config,
    initial_parameters=get_all_model_parameters(Net()),
)
server = FlServer(SimpleClientManager(), fl_config=config(0), strategy=strategy)
flwr.server.start_server(
    server=server,
    server_address=address,
    config=flwr.server.ServerConfig(num_rounds=rounds),
    certificates=tuple((tls / name).read_bytes() for name in ("ca.crt", "server.crt", "server.key")),
)
server.shutdown()
