// Data: sets of items, loaders of batches; tokens, IDX, CSV, images; transforms; tokenizers.
#ifndef TANDEM_DATA_H
#define TANDEM_DATA_H

#include <tandem/data/collate.h>
#include <tandem/data/dataset.h>
#include <tandem/data/idx.h>
#include <tandem/data/image.h>
#include <tandem/data/loader.h>
#include <tandem/data/random.h>
#include <tandem/data/sampler.h>
#include <tandem/data/table.h>
#include <tandem/data/tokenizer.h>
#include <tandem/data/tokens.h>
#include <tandem/data/transforms.h>

#endif  // TANDEM_DATA_H
