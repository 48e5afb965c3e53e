"""examples/cartpole.cpp in PyTorch."""
import argparse
import math
import random

import torch
from torch import nn

LONGEST = 500
GRAVITY, POLE, TOTAL, HALF_LENGTH, STEP = 9.8, 0.1, 1.1, 0.5, 0.02


class CartPole:
    def __init__(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]  # position, speed, angle, angular speed

    def push(self, action):
        """Pushes to the left (0) or right (1); False once the pole has fallen or the cart is off."""
        x, speed, angle, turning = self.state
        force, sine, cosine = 10 if action == 1 else -10, math.sin(angle), math.cos(angle)
        push = (force + POLE * HALF_LENGTH * turning * turning * sine) / TOTAL
        turn = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - POLE * cosine * cosine / TOTAL))
        acceleration = push - POLE * HALF_LENGTH * turn * cosine / TOTAL
        self.state = [x + STEP * speed, speed + STEP * acceleration, angle + STEP * turning, turning + STEP * turn]
        return abs(self.state[0]) < 2.4 and abs(self.state[2]) < 12 * math.pi / 180


@torch.no_grad()
def play(policy, states, actions, returns):
    game, steps, up = CartPole(), 0, True
    while up and steps < LONGEST:
        left = policy(torch.tensor([game.state])).exp()[0, 0].item()
        states.append(game.state)
        actions.append(0 if random.random() < left else 1)
        up = game.push(actions[-1])
        steps += 1
    later, of_episode = 0, []
    for _ in range(steps):
        later = 1 + 0.99 * later
        of_episode.append(later)
    returns.extend(reversed(of_episode))
    return steps


def improve(policy, optimizer, states, actions, returns):
    """Raises the probability of actions that did better than the average."""
    advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
    chosen = policy(states).gather(1, actions.unsqueeze(1)).squeeze(1)
    loss = -(chosen * advantage).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def train(a):
    """The mean number of steps of the last 100 episodes."""
    torch.manual_seed(a.seed)
    random.seed(a.seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2), nn.LogSoftmax(-1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    lengths = []
    while len(lengths) < a.episodes:
        states, actions, returns = [], [], []
        for _ in range(a.per_update):
            lengths.append(play(policy, states, actions, returns))
        improve(policy, optimizer, torch.tensor(states), torch.tensor(actions), torch.tensor(returns))
        if not a.quiet and len(lengths) % 80 < a.per_update:
            print(f"{len(lengths)}/{a.episodes}  steps {sum(lengths[-100:]) / len(lengths[-100:]):.1f}")
    return sum(lengths[-100:]) / len(lengths[-100:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Balances a pole by policy gradient.")
    parser.add_argument("--episodes", type=int, default=800)
    parser.add_argument("--per-update", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quiet", action="store_true")
    print(f"the last 100 episodes lasted {train(parser.parse_args()):.0f} of at most {LONGEST} steps on average")
