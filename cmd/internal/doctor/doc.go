// Package doctor looks at a machine and says what will fail there, what is slower than it could be, and what to do about it.
//
// A check is a small function over a [System], which stands for the machine: its files, environment, commands, kernel, network and the servers
// it can reach. [Examine] runs the list of [Checks] on it and gives a [Report]; tests give a System made of fixtures, programs the real one of
// [Local]. Nothing is changed on the machine, but for [Clean], which removes what killed processes left in memory.
//
// What is said of HCCL and its tools follows the public documentation of CANN: the environment variables of its user guide, the outputs of
// npu-smi and hccn_tool in the guides of its driver.
package doctor
