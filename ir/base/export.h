// TANDEM_API marks what the shared library exports; everything else is hidden.
#ifndef TANDEM_IR_BASE_EXPORT_H
#define TANDEM_IR_BASE_EXPORT_H

#define TANDEM_API __attribute__((visibility("default")))

#endif  // TANDEM_IR_BASE_EXPORT_H
