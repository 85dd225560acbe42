//! The parameters of a Burn module: their paths and shapes, read without initialising any.

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Bool, Int, Tensor, backend::Backend},
};

/// A parameter of a module. `float` ones are weights; the mapping knows no others.
pub(crate) struct Parameter {
    pub(crate) path: String,
    pub(crate) shape: Vec<usize>,
}

/// The parameters of `module` in the order a mapper meets them.
pub(crate) fn parameters<B: Backend, M: Module<B>>(module: &M) -> Vec<Parameter> {
    let mut walk = Walk::default();
    module.visit(&mut walk);
    walk.found
}

#[derive(Default)]
struct Walk {
    path: ParameterPath,
    found: Vec<Parameter>,
}

impl Walk {
    fn push(&mut self, shape: burn::tensor::Shape) {
        self.found.push(Parameter { path: self.path.joined(), shape: shape.to_vec() });
    }
}

impl<B: Backend> ModuleVisitor<B> for Walk {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.push(param.lazy_shape());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        self.push(param.lazy_shape());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<B, D, Bool>>) {
        self.push(param.lazy_shape());
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }
}

/// The field names and list indices that lead to the parameter at hand.
#[derive(Default)]
pub(crate) struct ParameterPath(Vec<String>);

impl ParameterPath {
    pub(crate) fn enter(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    pub(crate) fn exit(&mut self) {
        self.0.pop();
    }

    pub(crate) fn joined(&self) -> String {
        self.0.join(".")
    }
}
