// Optimizers, as torch.optim has them.
#ifndef TANDEM_OPTIM_H
#define TANDEM_OPTIM_H

#include <tandem/optim/adam.h>
#include <tandem/optim/adaptive.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/lbfgs.h>
#include <tandem/optim/momentum.h>
#include <tandem/optim/optimizer.h>
#include <tandem/optim/schedulers.h>

#endif  // TANDEM_OPTIM_H
